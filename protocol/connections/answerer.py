"""Who answers the requests of a connection of HTTP/1.1, as the connection sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Protocol

from partway.protocol.http1.parser import RequestBroken
from partway.protocol.http1.request import Http1Request


class Answerer(Protocol):
    """Whoever has a connection's requests answered: see :mod:`~.http1_server`.

    Attributes:
        head_timeout: seconds in which a request's head has to come whole.
        taken_within: seconds in which a client has to take some of what it is sent.
        ending: whether connections end with the response that is under way.
        tasks: those in which requests are answered.
    """

    head_timeout: float
    taken_within: float
    ending: bool
    tasks: set[asyncio.Task[None]]

    # Each has connections of its own kind.

    def begun(self, connection: Any) -> None:
        """Note that a connection has begun."""

    def over(self, connection: Any) -> None:
        """Note that a connection is over."""

    def answer(self, connection: Any, request: Http1Request) -> Awaitable[bool]:
        """Answer a request; returns whether the connection may have another one."""

    def refuse(self, connection: Any, broken: RequestBroken) -> None:
        """Answer what is no request."""
