"""HTTP/2: makes a connection of each transport, and closes them all in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from partway.gateway.http.connection_admission import Visitor
from partway.gateway.http.http2.connections import Connections, Dispatch, InReserve
from partway.protocol.limits import HTTP2_MAX_STREAMS


class Http2Server:
    """Makes a protocol for each connection; the listener feeds it.

    Args:
        dispatch: answers an exchange.
        on_closed_to_new: told what a client sent too much of.
        max_streams: streams that one connection may have open at once.
        in_reserve: whether a request, by its method and path, is one that the reserve is for.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        on_closed_to_new: Callable[[str], None],
        max_streams: int = HTTP2_MAX_STREAMS,
        in_reserve: InReserve = lambda *_: False,
    ) -> None:
        self._connections = Connections(dispatch, on_closed_to_new, max_streams, in_reserve)

    def protocol(self, visitor: Visitor | None = None) -> asyncio.Protocol:
        """A protocol for one connection; without a visitor nobody counts it."""
        # Not before the first one: a gateway whose clients are all WebSockets needs no HTTP/2. The
        # library and all that stands on it take some 20 ms, once.
        from partway.gateway.http.http2.connection import Http2Connection

        return Http2Connection(self._connections, visitor)

    @property
    def open_connections(self) -> int:
        """How many connections are open."""
        return len(self._connections.open)

    def announce_end(self) -> None:
        """Tell clients that their next stream is better opened elsewhere."""
        for connection in self._connections.open:
            connection.announce_end()

    async def shutdown(self, timeout: float) -> None:
        """Close connections, idle ones now, others after their streams, or ``timeout`` seconds."""
        for connection in list(self._connections.open):
            connection.close_when_idle()
        try:
            async with asyncio.timeout(timeout):
                while self._connections.open:
                    self._connections.closed.clear()
                    await self._connections.closed.wait()
        except TimeoutError:
            for connection in list(self._connections.open):
                connection.abort()
