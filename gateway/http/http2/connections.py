"""The HTTP/2 connections of a server, and the limit on streams of all of them together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from partway.gateway.http.connection_admission import Visitor
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.highest_count import Fullest
from partway.gateway.limits import HTTP2_MAX_STREAMS_IN_ALL, HTTP2_RESERVED_STREAMS, SHARE_OF_ONE

Dispatch = Callable[[Exchange], Awaitable[None]]

#: Whether the reserve answers a request, given its method and path.
InReserve = Callable[[str, str], bool]


class Open(Protocol):
    def announce_end(self) -> None:
        """Send GOAWAY; new streams are still answered."""

    def close_when_idle(self) -> None:
        """Take no new stream; close now, or once the last one is over."""

    def abort(self) -> None:
        """End the transport at once."""


class Unended(Protocol):
    """Streams of one connection that have ended here but not yet on the client's side."""

    def __len__(self) -> int: ...

    def reset_oldest(self) -> None:
        """Reset the one that ended first."""


class Connections:
    """The connections of one server, and the state that they share.

    Args:
        on_closed_to_new: called with the kind of excess when a connection takes no more streams.
        max_streams: streams that one connection may have open at once.
        in_reserve: whether a request is one that the reserve of streams is for.

    Attributes:
        streams: how many streams are open on all connections together.
        late: how many more streams have ended here but not yet on the client's side.
        unended: the connections that have such streams, by their number.
        retired: a connection that comes is told to open its next stream elsewhere.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        on_closed_to_new: Callable[[str], None],
        max_streams: int,
        in_reserve: InReserve = lambda *_: False,
    ) -> None:
        self.dispatch = dispatch
        self.on_closed_to_new = on_closed_to_new
        self.max_streams = max_streams
        self.in_reserve = in_reserve
        self.open: set[Open] = set()
        self.streams = 0
        self._streams_of: dict[str, int] = {}  # by peer
        self.late = 0
        self.unended = Fullest[Unended]()
        self.closed = asyncio.Event()
        self.retired = False

    def full(self, visitor: Visitor, *, reserved: bool) -> bool:
        """Say whether a connection may open no stream, because all places or its peer's are taken.

        ``reserved`` says whether the stream's request is one that the reserve is for.
        """
        most = HTTP2_MAX_STREAMS_IN_ALL
        share = most if visitor.trusted else most // SHARE_OF_ONE
        more = HTTP2_RESERVED_STREAMS if reserved else 0
        return self.streams >= most + more or self._streams_of.get(visitor.peer, 0) >= share + more

    def stream_began(self, visitor: Visitor) -> None:
        self.streams += 1
        self._streams_of[visitor.peer] = self._streams_of.get(visitor.peer, 0) + 1

    def stream_over(self, visitor: Visitor) -> None:
        self.streams -= 1
        left = self._streams_of.pop(visitor.peer) - 1
        if left:
            self._streams_of[visitor.peer] = left
