"""From method and path to an operation."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from partway.gateway.serving.exchange import Exchange
from partway.protocol.errors import NotFound

_METHOD = re.compile(r"[A-Z]{1,16}")

Operation = Callable[[Exchange, Mapping[str, str]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Route:
    """One operation's place.

    Attributes:
        methods: that it answers.
        path: matched against the raw path; named groups are percent-decoded and handed over.
        operation: what answers.
    """

    methods: frozenset[str]
    path: re.Pattern[str]
    operation: Operation


def find(routes: tuple[Route, ...], method: str, path: str) -> tuple[Operation, Mapping[str, str]]:
    """The operation for a request, with what its path says.

    Raises:
        NotFound: no operation lives there, or not under this method.
    """
    for route in routes:
        match = route.path.fullmatch(path)
        if match is not None and method in route.methods:
            named = {key: unquote(value) for key, value in match.groupdict().items()}
            return route.operation, named
    shown = method if _METHOD.fullmatch(method) else "this method"  # it may be anything at all
    raise NotFound(f"no operation answers {shown} on this path")


#: Clause 2.1-4: a base path may stand in front, and a client may percent-encode the name.
BIDIRECTIONAL = re.compile(
    r"(?:/.*)?/endpoints/(?P<endpoint>[^/]+)/invocations-bidirectional-stream"
)
HEALTHZ = re.compile("/healthz")
READYZ = re.compile("/readyz")
METRICS = re.compile("/metrics")
