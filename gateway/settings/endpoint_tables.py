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
from partway.gateway.fleet.endpoint import DEFAULT_VARIANT, Execution, Pull, container_address
from partway.gateway.fleet.launchers.images import is_image
from partway.gateway.fleet.limits import (
    HEALTH_PING_INTERVAL,
    HEALTH_PINGS_MISSED,
    INSTANCE_DRAIN_TIMEOUT,
    MAX_CONTAINERS,
    MAX_GPUS,
    MAX_INSTANCES,
    PING_TIMEOUT,
    START_TIMEOUT,
    STOP_GRACE,
)
from partway.gateway.fleet.platform_interface import PORT, Platform
from partway.gateway.fleet.prediction import ContainerRoute, PredictionPolicy
from partway.gateway.fleet.processes.commands import check_words, command_words
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.protocol.limits import MAX_ENDPOINT_NAME, is_name

_DAY: Final = 86_400


def is_container_url(url: str) -> bool:
    try:
        container_address(url, tls=True)
    except ValueError:
        return False
    return True


def _is_model_data(path: str) -> bool:
    scheme, found, rest = path.partition("://")
    return "\0" not in path and (bool(path) if not found else scheme == "s3" and bool(rest))


def _words(value: object) -> object:
    """Split a command into words, from a string or an array."""
    if isinstance(value, str):
        return command_words(value)
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        check_words(value)
    return value


# --- Constraints ---------------------------------------------------------------------------------

Name = Annotated[
    str,
    text(
        f"1 to {MAX_ENDPOINT_NAME} letters, digits and hyphens, with a letter or digit at both "
        "ends",
        is_name,
    ),
]
ImageName = Annotated[
    str, text("an image's name, such as chat:1 or registry.example/chat:1", is_image)
]
CommandWords = Annotated[
    tuple[str, ...],
    Must(
        "a command, as a string or as an array of strings",
        lambda core, inner: core.no_info_before_validator_function(
            _words, {**inner(), "fail_fast": True}
        ),
    ),
]
ContainerUrl = Annotated[
    str,
    text(
        "an http:// or https:// URL with host and port and no path, such as http://127.0.0.1:8080",
        is_container_url,
    ),
]
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
_Seconds = Annotated[float, number(above=0, most=_DAY, unit="seconds")]


# --- The tables ----------------------------------------------------------------------------------


# This class and the next one have no slots. An endpoint's table inherits from both and from
# StreamPolicy, and Python allows slots from one base class only.
@dataclass(frozen=True, kw_only=True)
class InstanceTable:
    """``[instance]``: defaults for the instances of all endpoints.

    :class:`~partway.gateway.fleet.endpoint.InstanceTimes` describes them.
    """

    startup_timeout: _Seconds = START_TIMEOUT
    health_ping_interval: Annotated[float, number(least=0, most=_DAY, unit="seconds")] = (
        HEALTH_PING_INTERVAL
    )
    health_ping_timeout: _Seconds = PING_TIMEOUT
    health_pings_missed: Annotated[int, whole(1, 1000, "pings")] = HEALTH_PINGS_MISSED
    instance_drain_timeout: _Seconds = INSTANCE_DRAIN_TIMEOUT
    stop_timeout: _Seconds = STOP_GRACE


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
SOURCES: Final = ("url", "urls", "command", "image", "containers")

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
            ("url", "urls", "command", "image"),
            "since each of several containers has its own in its table",
        ),
    ),
    "port": (
        ("image",),
        "since the gateway chooses the port of a command, and a URL names its own",
    ),
}
