"""``[cluster]``: the Kubernetes cluster in which instances are discovered."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final

from partway.gateway.configuration.expected import FilePath, Flag, text

#: The name of a Service or a namespace (RFC 1123's label), and of a port.
_LABEL: Final = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def is_service_name(name: str) -> bool:
    """Return whether a name is NAME or NAMESPACE/NAME."""
    parts = name.split("/")
    return len(parts) <= 2 and all(map(_LABEL.fullmatch, parts))


def is_port(value: object) -> int | str:
    """Return a port's number or name.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65_535:
        return value
    if isinstance(value, str) and _LABEL.fullmatch(value) and not value.isdecimal():
        return value
    raise ValueError


ServiceName = Annotated[
    str,
    text("the name of a Service, such as chat, or with its namespace models/chat", is_service_name),
]
_Namespace = Annotated[
    str, text("a namespace: up to 63 lower-case letters, digits and hyphens", _LABEL.fullmatch)
]
_Server = Annotated[
    str, text("a URL such as https://10.0.0.1:6443", re.compile("https?://[^/?#@]+/?").fullmatch)
]


@dataclass(frozen=True, slots=True)
class ClusterTable:
    """The cluster's API server, and what the gateway reads there.

    Attributes:
        server: its URL; None for the cluster that this process runs in.
        token_file: has the bearer token; None for the pod's own.
        ca_file: roots to trust at the server, PEM; None for the pod's own.
        namespace: of Services without one, and of Endpoint objects; None for the pod's own.
        endpoints: whether each Endpoint object is an endpoint of this gateway.
        gateways: the Service of all gateways, by which shares are divided; None for one gateway.
    """

    server: _Server | None = None
    token_file: FilePath | None = None
    ca_file: FilePath | None = None
    namespace: _Namespace | None = None
    endpoints: Flag = False
    gateways: ServiceName | None = None

    @property
    def is_followed(self) -> bool:
        """Whether more is read there than the instances of the settings' endpoints."""
        return self.endpoints or self.gateways is not None
