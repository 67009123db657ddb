"""What the HTTP/2 connections of one server share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from partway.gateway.limits import HTTP2_MAX_STREAMS_IN_ALL
from partway.gateway.serving.exchange import Exchange
from partway.gateway.serving.strangers import VisitorFrom, uncounted

Dispatch = Callable[[Exchange], Awaitable[None]]


class Open(Protocol):
    """An HTTP/2 connection, as its server sees it."""

    def announce_end(self) -> None:
        """Send GOAWAY; new streams are still answered."""

    def close_when_idle(self) -> None:
        """Take no new stream; close now, or once the last one is over."""

    def abort(self) -> None:
        """End the transport at once."""


class Unended(Protocol):
    """Streams of one connection that are over but for the client's end of them."""

    def __len__(self) -> int: ...

    def reset_oldest(self) -> None:
        """Reset the one that is over for longest."""


class Connections:
    """The connections of one server, and what they share.

    Args:
        dispatch: answers an exchange.
        on_closed_to_new: told what a client sent too much of.
        max_streams: streams that one connection may have open at once.
        visitor_from: makes what a connection from an address costs; by default nothing is counted.

    Attributes:
        open: the open connections.
        streams: how many streams are open on all connections together.
        late: how many more are over but for their clients' ends of them.
        unended: those, for each connection that has some.
        closed: set when a connection closes.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        on_closed_to_new: Callable[[str], None],
        max_streams: int,
        visitor_from: VisitorFrom = lambda _: uncounted(),
    ) -> None:
        self.dispatch = dispatch
        self.on_closed_to_new = on_closed_to_new
        self.max_streams = max_streams
        self.visitor_from = visitor_from
        self.open: set[Open] = set()
        self.streams = 0
        self.late = 0
        self.unended: dict[Unended, None] = {}  # in the order in which connections came to have any
        self.closed = asyncio.Event()

    def full(self) -> bool:
        """Whether no connection takes another stream."""
        return self.streams >= HTTP2_MAX_STREAMS_IN_ALL
