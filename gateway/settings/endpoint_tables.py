"""An endpoint's tables in a file of settings: their keys, and the constraints on their values.

::

    [endpoints.chat]
    environment = { LANGUAGE = "en" }   # of all its variants

    [endpoints.chat.variants.old]
    image = "chat:1"
    weight = 9

    [endpoints.chat.variants.new]
    command = "./chat --port-from-environment"
    instances = 2

    [[endpoints.scored.containers]]     # each instance has both, and the second gets what the
    image = "features:1"                # first has answered

    [[endpoints.scored.containers]]
    image = "model:1"

    [endpoints.far]
    service = "models/chat"             # the ready pods of a Service of Kubernetes
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

from partway.gateway.configuration.expected import (
    FilePath,
    FolderPath,
    Must,
    Size,
    array,
    number,
    secret,
    text,
    whole,
)
from partway.gateway.fleet.endpoint import DEFAULT_VARIANT, Execution, Pull
from partway.gateway.fleet.limits import MAX_CONTAINERS, MAX_GPUS, MAX_INSTANCES
from partway.gateway.fleet.platform_interface import PORT, Platform
from partway.gateway.fleet.prediction import ContainerRoute, PredictionPolicy
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.settings.cluster_table import ServiceName, is_port
from partway.gateway.settings.shared_values import (
    CommandWords,
    ContainerUrl,
    ImageName,
    InstanceTable,
    Name,
)


def _is_model_data(path: str) -> bool:
    scheme, found, rest = path.partition("://")
    return "\0" not in path and (bool(path) if not found else scheme == "s3" and bool(rest))


# --- Constraints ---------------------------------------------------------------------------------

_ContainerUrls = Annotated[
    tuple[ContainerUrl, ...], array("an array of at least one URL", 1, MAX_INSTANCES)
]
_ModelData = Annotated[
    str, text("the path of a folder or a tar.gz file, or an s3:// URL of one", _is_model_data)
]
_Variable = Annotated[
    str,
    text(
        "a variable's name: letters, digits and _, without a digit at its start",
        re.compile("[A-Za-z_][A-Za-z0-9_]*").fullmatch,
    ),
]
_without_zero_bytes = re.compile(r"[^\0]*").fullmatch
_VariableValue = Annotated[str, text("a string without zero bytes", _without_zero_bytes)]


_Port = Annotated[
    int | str,
    Must(
        "a port's number from 1 to 65535, or its name",
        lambda core, _: core.no_info_plain_validator_function(is_port),
    ),
]


# --- The tables ----------------------------------------------------------------------------------


# This class has no slots, as InstanceTable has none.
@dataclass(frozen=True, kw_only=True)
class ContainerKeys:
    """The keys of one container's table, and of a variant's for an only container."""

    url: ContainerUrl | None = None
    command: CommandWords | None = None
    image: ImageName | None = None
    ca: FilePath | None = None
    cwd: FolderPath | None = None
    model_data: _ModelData | None = None
    environment: Annotated[dict[_Variable, _VariableValue], secret("a table of strings")] = field(
        default_factory=dict, repr=False
    )
    pull: Pull = "missing"
    platform: Platform = "sagemaker"
    health_route: ContainerRoute | None = None
    predict_route: ContainerRoute | None = None
    port: Annotated[int, whole(1, 65_535)] = PORT


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerTable(ContainerKeys):
    """``[[endpoints.NAME.containers]]``: one container of instances that have several."""

    hostname: Name | None = None


_Containers = Annotated[
    tuple[ContainerTable, ...],
    array(f"an array of 2 to {MAX_CONTAINERS} tables", 2, MAX_CONTAINERS, stop=False),
]


@dataclass(frozen=True, kw_only=True)
class VariantKeys(InstanceTable, ContainerKeys):
    """The keys of a variant's table, and of an endpoint's for all its variants."""

    urls: _ContainerUrls | None = None
    containers: _Containers | None = None
    service: ServiceName | None = None
    service_port: _Port | None = None
    execution: Execution = "serial"
    instances: Annotated[int, whole(1, MAX_INSTANCES, "instances")] = 1
    gpus: Annotated[int, whole(0, MAX_GPUS, "GPUs")] = 0
    cpus: Annotated[float, number(above=0, most=1024, unit="CPUs")] | None = None
    memory: Size | None = None
    container_hostname: Name | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantTable(VariantKeys):
    """``[endpoints.NAME.variants.NAME]``: a variant, and its share of the traffic."""

    weight: Annotated[float, number(least=0, most=100_000)] = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointTable(StreamPolicy, VariantKeys):
    """``[endpoints.NAME]``: settings of its streams, and its variant or variants."""

    variant: Name = DEFAULT_VARIANT
    variants: dict[Name, VariantTable] = field(default_factory=dict)
    prediction: PredictionPolicy = field(default_factory=PredictionPolicy)


#: Keys for the source of a variant's instances: a variant has one of them.
SOURCES: Final = ("url", "urls", "command", "image", "containers", "service")

#: Keys for the source of one container of several: it has one of them.
SOURCES_OF_ONE: Final = ("url", "command", "image")

_NOT_STARTED: Final = "since the gateway does not start what runs at a URL"

#: Keys for how a container is called: each of several has its own.
OF_PLATFORM: Final = ("platform", "health_route", "predict_route", "port")

#: The sources beside which a key has a meaning, and why it has none beside the others.
BESIDE: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "ca": (("url", "urls"), "since it is for containers that are reached over https://"),
    "cwd": (("command",), "since only a command runs in a folder of this machine"),
    "execution": (("containers",), "since it says how several containers are called"),
    "model_data": (("command", "image"), _NOT_STARTED),
    **dict.fromkeys(
        ("instances", "environment", "gpus", "startup_timeout", "stop_timeout"),
        (("command", "image", "containers"), _NOT_STARTED),
    ),
    **dict.fromkeys(
        ("cpus", "memory", "container_hostname", "pull"),
        (("image",), "since only a container engine can apply it"),
    ),
    **dict.fromkeys(
        ("platform", "health_route", "predict_route"),
        (
            ("url", "urls", "command", "image", "service"),
            "since each of several containers has its own in its table",
        ),
    ),
    "service_port": (("service",), "since it is a port of that Service's pods"),
    "port": (
        ("image",),
        "since the gateway chooses the port of a command, and a URL names its own",
    ),
}
