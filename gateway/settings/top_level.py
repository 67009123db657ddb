"""The settings of the whole gateway, and the tables of a file that concern all endpoints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from partway.gateway.apis import manifests
from partway.gateway.apis.asynchronous.manifest import AsynchronousSettings
from partway.gateway.apis.kubernetes.manifest import KubernetesSettings
from partway.gateway.apis.prediction.manifest import PredictionSettings
from partway.gateway.apis.transform_jobs.manifest import TransformSettings
from partway.gateway.configuration.expected import (
    FilePath,
    Flag,
    FolderPath,
    Size,
    Strings,
    Workers,
    array,
    number,
    text,
    whole,
)
from partway.gateway.fleet.limits import MAX_LAUNCHED_CONTAINERS
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.http.peers import network_of
from partway.gateway.limits import (
    MAX_CONNECTIONS,
    MAX_GATHERED_BYTES,
    MAX_INVOCATION_BODY,
    MAX_REQUESTS,
    MAX_STREAMS,
)
from partway.gateway.settings.caller_permissions import (
    OF_THE_PLATFORM,
    Topic,
    Variables,
    Webhook,
)
from partway.gateway.settings.shared_values import CommandWords, ImageName, InstanceTable
from partway.gateway.storage.limits import MODEL_DATA_QUOTA
from partway.log_lines import LogFormat
from partway.protocol import limits

_DAY = 86_400

#: uvloop would take a port modulo 65,536.
_Port = Annotated[int, whole(0, 65_535)]
_Streams = Annotated[int, whole(1, 1_000_000, "streams")]
_Requests = Annotated[int, whole(1, 1_000_000, "requests")]
_Connections = Annotated[int, whole(1, 1_000_000, "connections")]
_Network = Annotated[
    str,
    text("an IP address, or a network such as 10.0.0.0/8 or 2001:db8::/32", network_of),
]
_Networks = Annotated[frozenset[_Network], array("an array of addresses and networks")]
_Seconds = Annotated[float, number(least=0, most=_DAY, unit="seconds")]

#: Stands in ``apis`` for no API at all.
NO_APIS: Final = "none"

_Api = Annotated[
    str,
    text(
        f"one of {', '.join(sorted(manifests.NAMES))}; or only {NO_APIS}",
        lambda name: name == NO_APIS or name in manifests.NAMES,
    ),
]
_Apis = Annotated[frozenset[_Api], array("an array of APIs' names")]


@dataclass(frozen=True)
class _CoreSettings:
    """Settings of the whole gateway that belong to no API; :class:`.Settings` describes them."""

    host: str = "127.0.0.1"
    port: _Port = 8090
    workers: Workers = 1
    tls_port: _Port | None = None
    tls_cert: FilePath | None = None
    tls_key: FilePath | None = None
    tls_names: Strings = frozenset()
    region: Annotated[
        str, text("an AWS region's name, such as us-east-1", limits.REGION.fullmatch)
    ] = "us-east-1"
    account: Annotated[str, text("the 12 digits of an AWS account", limits.ACCOUNT.fullmatch)] = (
        "000000000000"
    )
    apis: _Apis = manifests.NAMES
    auth: Literal["none", "sigv4"] = "none"
    principals: FilePath | None = None
    insecure: Flag = False
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: LogFormat = "text"
    container_ca: FilePath | None = None
    allow_origins: Strings = frozenset()
    max_streams: _Streams = MAX_STREAMS
    max_streams_per_connection: _Streams = limits.HTTP2_MAX_STREAMS
    max_streams_per_principal: _Streams | None = None
    max_requests: _Requests = MAX_REQUESTS
    max_requests_per_principal: _Requests | None = None
    max_invocation_body: Size = MAX_INVOCATION_BODY
    max_gathered_bytes: Size = MAX_GATHERED_BYTES
    max_connections: _Connections = MAX_CONNECTIONS
    max_connections_per_address: _Connections | None = None
    trusted_proxies: _Networks = frozenset()
    shutdown_grace: _Seconds = limits.SHUTDOWN_GRACE
    shutdown_spread: _Seconds = limits.SHUTDOWN_SPREAD
    shutdown_hard: _Seconds = limits.SHUTDOWN_HARD
    data_dir: FolderPath | None = None
    model_data_quota: Size = MODEL_DATA_QUOTA
    max_containers: Annotated[int, whole(1, 1_000_000, "containers")] = MAX_LAUNCHED_CONTAINERS


@dataclass(frozen=True)
class TopLevel(
    KubernetesSettings, TransformSettings, AsynchronousSettings, PredictionSettings, _CoreSettings
):
    """Settings of the whole gateway, which flags and variables may have too."""


@dataclass(frozen=True, slots=True)
class ApiTable:
    """``[api]``: permissions of API callers on this machine."""

    local_roots: Annotated[tuple[FolderPath, ...], array("an array of folders' paths")] = ()
    local_results: Annotated[tuple[FolderPath, ...], array("an array of folders' paths")] = ()
    environment: Annotated[tuple[Variables, ...], array("an array of variables' names")] = (
        OF_THE_PLATFORM
    )
    topics: dict[Topic, Webhook] = field(default_factory=dict)
    inclusive_slices: Flag = False


@dataclass(frozen=True)
class CommonTables(TopLevel):
    """The tables of a file that concern all endpoints."""

    stream: StreamPolicy = field(default_factory=StreamPolicy)
    instance: InstanceTable = field(default_factory=InstanceTable)
    api: ApiTable = field(default_factory=ApiTable)
    images: dict[ImageName, CommandWords] = field(default_factory=dict)
