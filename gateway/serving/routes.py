"""Routes: which operation a request asks for, and what is done before the operation runs."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from urllib.parse import unquote

from partway.gateway.access.authentication import Identity
from partway.gateway.serving.error_dialects import ErrorDialect, aws_rest_json
from partway.gateway.serving.exchange import Exchange
from partway.gateway.serving.payloads import NO_PAYLOAD, PayloadRule
from partway.protocol.errors import NotFound

_METHOD = re.compile(r"[A-Z]{1,16}")

#: Answers an exchange, given who asks and what the route's path named.
Operation = Callable[[Exchange, Identity, Mapping[str, str]], Awaitable[None]]


class Access(Enum):
    """How a request says who sends it, where the gateway asks at all (clauses 2.4, 3-5)."""

    ANYONE = "anyone"
    SIGNED = "signed"
    SIGNED_OR_BEARER = "signed or bearer"


@dataclass(frozen=True, slots=True)
class Route:
    """One operation's place, and what is done before it runs.

    Attributes:
        name: the operation's name, which principals are given leave to call; AWS's name of it,
            where AWS has one.
        methods: HTTP methods that the route answers.
        path: matched against the raw path; named groups are percent-decoded and handed over. The
            group ``endpoint`` is what principals need leave for.
        operation: what answers.
        access: how a request says who sends it.
        payload: what the operation takes as a request's body.
        errors: how the operation's clients read errors.
        target: the value of ``X-Amz-Target``, where one path is the place of several operations;
            empty for any.
        reserved: whether it is answered in the reserve too, when connections or streams are all in
            use.
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
        match = route.path.fullmatch(path)
        if match is not None and method in route.methods and route.target in ("", target):
            named = {key: unquote(value) for key, value in match.groupdict().items()}
            return route, named
    shown = method if _METHOD.fullmatch(method) else "this method"  # it may be anything at all
    raise NotFound(f"no operation answers {shown} on this path")


#: Methods that read, and change nothing.
READING = frozenset({"GET", "HEAD"})
