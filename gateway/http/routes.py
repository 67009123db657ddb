"""Routes: the operation for each request, and the steps before it runs."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import unquote

from partway.gateway.access.authentication import Access, Identity
from partway.gateway.http.error_dialects import ErrorDialect, aws_rest_json
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.request_payloads import NO_PAYLOAD, PayloadRule
from partway.protocol.errors import NotFound
from partway.protocol.signatures.canonical_form import SERVICE

_METHOD = re.compile(r"[A-Z]{1,16}")
_OF_ENDPOINT = re.compile(r"/endpoints/[^/]")

#: Refuses a request that no client of an operation would send.
Requirement = Callable[[Exchange], None]


#: Answers an exchange, given the sender and the values from the route's path.
Operation = Callable[[Exchange, Identity, Mapping[str, str]], Awaitable[None]]


class Leave(Enum):
    """The place where the permission of a request's sender is checked."""

    #: The dispatcher, for the endpoint in the path, before the operation runs.
    OF_ENDPOINT = "of endpoint"
    #: The operation, by ``Identity.check``, since the request's body names the resource.
    OF_OPERATION = "of operation"


@dataclass(frozen=True, slots=True)
class Route:
    """The route of one operation, and the steps before it runs.

    Attributes:
        name: the operation's name, AWS's if it has one. With the service's name before it, it is
            IAM's name of the action.
        path: matched against the raw path; named groups are percent-decoded and handed over. The
            group ``endpoint`` is the endpoint's name.
        target: the required ``X-Amz-Target``, if several operations share a path; a prefix if it
            ends in ``*``; empty for any.
        reserved: whether the reserve answers it too, when all connections or streams are in use.
        leave: who checks the sender's permission; no one does if anyone may ask.
        service: the operation's service, for signatures and actions.
        control: whether it belongs to the control plane, which only this machine may use without
            authentication.
        changes: whether it changes the gateway: each such request is in the audit log.
        granted_with: the operation whose permission the sender needs, if that is another one.
        requires: raises an error for a request that is not from the operation's clients, before all
            other checks. The error has the default dialect, not ``errors``. None to accept all.
        action: IAM's name of the action, such as ``sagemaker:InvokeEndpoint``.
        watched: whether the audit log verifies its permission check, or logs its changes.

    Raises:
        ValueError: the dispatcher must check a permission for the path's endpoint, and the path
            names none; or the route changes something and is not of the control plane.
    """

    name: str
    methods: frozenset[str]
    path: re.Pattern[str]
    operation: Operation
    access: Access = Access.SIGNED
    payload: PayloadRule = NO_PAYLOAD
    errors: ErrorDialect = aws_rest_json
    target: str = ""
    reserved: bool = False
    leave: Leave = Leave.OF_ENDPOINT
    service: str = SERVICE
    control: bool = False
    changes: bool = False
    granted_with: str = ""
    requires: Requirement | None = None
    action: str = field(init=False)
    watched: bool = field(init=False)

    def __post_init__(self) -> None:
        is_watched = self.changes or self.leave is Leave.OF_OPERATION
        object.__setattr__(self, "watched", is_watched)
        object.__setattr__(self, "action", f"{self.service}:{self.granted_with or self.name}")
        if self.changes and not self.control:
            raise ValueError(f"the route of {self.name} changes something: it must have control")
        if self.access is Access.ANYONE or self.leave is Leave.OF_OPERATION:
            return
        if "endpoint" not in self.path.groupindex:
            raise ValueError(
                f"the route of {self.name} must name an endpoint in its path, or have "
                "Leave.OF_OPERATION: else nothing checks who may call it"
            )


def find(
    routes: tuple[Route, ...], method: str, path: str, target: str = ""
) -> tuple[Route, Mapping[str, str]]:
    """Return the route of a request, with the values from its path.

    The first of the routes that matches is returned. ``target`` is the request's ``X-Amz-Target``;
    it is empty without that header.

    Raises:
        NotFound: no operation answers on this path, or not to this method.
    """
    for route in routes:
        if method not in route.methods or not _fits(route.target, target):
            continue
        match = route.path.fullmatch(path)
        if match is not None:
            groups = match.groupdict("").items()
            named = {key: unquote(value) for key, value in groups}
            return route, named
    if method == "CONNECT":
        raise NotFound(
            "CONNECT asks for a WebSocket over HTTP/2 (RFC 8441), which is not supported; a "
            "WebSocket must be opened over HTTP/1.1, also by a proxy in between (HAProxy: `ws h1`)"
        )
    shown = method if _METHOD.fullmatch(method) else "this method"  # the method may be any text
    # The path stays out of the message, which is logged too: it may hold a secret.
    unknown = f"no operation answers {shown} on this path"
    if method == "GET" and _OF_ENDPOINT.search(path):
        unknown += (
            "; a stream's path is /endpoints/NAME/invocations-bidirectional-stream, or "
            "/endpoints/NAME/stream/PATH for a path of the container's own"
        )
    raise NotFound(unknown)


def _fits(wanted: str, target: str) -> bool:
    if wanted.endswith("*"):
        return target.startswith(wanted[:-1])
    return wanted in ("", target)


#: Methods that only read.
READING = frozenset({"GET", "HEAD"})
