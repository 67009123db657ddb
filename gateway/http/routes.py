"""Routes: which operation a request asks for, and what is done before the operation runs."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import unquote

from partway.gateway.access.authentication import Identity
from partway.gateway.http.error_dialects import ErrorDialect, aws_rest_json
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.request_payloads import NO_PAYLOAD, PayloadRule
from partway.protocol.errors import NotFound
from partway.protocol.signatures.canonical_form import SERVICE

_METHOD = re.compile(r"[A-Z]{1,16}")

#: Says what is wrong with a request that no client of an operation's would send.
Requirement = Callable[[Exchange], None]


#: Answers an exchange, given who asks and what the route's path named.
Operation = Callable[[Exchange, Identity, Mapping[str, str]], Awaitable[None]]


class Access(Enum):
    """How a request says who sends it, where the gateway asks at all (clauses 2.4, 3-5)."""

    ANYONE = "anyone"
    SIGNED = "signed"
    SIGNED_OR_BEARER = "signed or bearer"


class Leave(Enum):
    """Who sees to it that a request's sender may do what it asks for."""

    #: The dispatcher, by the endpoint that the path names, before the operation hears of it.
    OF_ENDPOINT = "of endpoint"
    #: The operation, by ``Identity.check``, since what it is done with is in the request's body.
    OF_OPERATION = "of operation"


@dataclass(frozen=True, slots=True)
class Route:
    """One operation's place, and what is done before it runs.

    Attributes:
        name: the operation's name; AWS's name of it, where AWS has one. With the service's before
            it, it is what IAM calls the action.
        methods: HTTP methods that the route answers.
        path: matched against the raw path; named groups are percent-decoded and handed over. The
            group ``endpoint`` is the endpoint's name.
        operation: what answers.
        access: how a request says who sends it.
        payload: what the operation takes as a request's body.
        errors: how the operation's clients read errors.
        target: the value of ``X-Amz-Target``, where one path is the place of several operations;
            its beginning, with ``*`` behind; empty for any.
        reserved: whether it is answered in the reserve too, when connections or streams are all in
            use.
        leave: who checks what the sender may do; nothing is checked where anyone may ask.
        service: whose operation it is, as signatures and actions say.
        control: whether it is of the control plane, which is reached from this machine alone where
            nobody is asked for their name.
        changes: whether it changes what the gateway has: each request for it is in the audit log.
        granted_with: the operation that a sender must have leave for, where that is another one.
        requires: raises an error where a request is not one of the operation's clients; it is asked
            first, and the error is told as to anybody, not in ``errors``. None if all are.
        action: what IAM calls it, such as ``sagemaker:InvokeEndpoint``.
        watched: whether it is seen to that leave is asked for, or that what was changed is logged.

    Raises:
        ValueError: leave is to be had for the path's endpoint, and the path names none; or what
            changes something is not of the control plane.
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
                "Leave.OF_OPERATION: else nobody checks who may call it"
            )


def find(
    routes: tuple[Route, ...], method: str, path: str, target: str = ""
) -> tuple[Route, Mapping[str, str]]:
    """Return the route of a request, with what its path says.

    Args:
        routes: the first that answers wins.
        method: the request's method.
        path: the request's raw path.
        target: the request's ``X-Amz-Target``; empty without that header.

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
    shown = method if _METHOD.fullmatch(method) else "this method"  # it may be anything at all
    raise NotFound(f"no operation answers {shown} on this path")


def _fits(wanted: str, target: str) -> bool:
    if wanted.endswith("*"):
        return target.startswith(wanted[:-1])
    return wanted in ("", target)


#: Methods that read, and change nothing.
READING = frozenset({"GET", "HEAD"})
