"""The HTTP/2 server: it makes a connection of each transport, and closes all of them in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from partway.gateway.http.connection_admission import Visitor
from partway.gateway.http.http2.connections import Connections, Dispatch, InReserve
from partway.protocol.limits import HTTP2_MAX_STREAMS


class Http2Server:
    """Makes a protocol for each connection; the listener feeds it.

    Args:
        on_closed_to_new: called with the kind of excess when a connection takes no more streams.
        max_streams: streams that one connection may have open at once.
        in_reserve: whether the reserve answers a request, given its method and path.
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
        """Return a protocol for one connection; without a visitor it is not counted."""
        # Imported with the first connection: a gateway with WebSocket clients only needs no HTTP/2.
        # The library and the modules on top take about 30 ms, once.
        from partway.gateway.http.http2.connection import Http2Connection

        return Http2Connection(self._connections, visitor)

    @property
    def open_connections(self) -> int:
        return len(self._connections.open)

    def announce_end(self) -> None:
        """Tell clients to open their next stream elsewhere."""
        for connection in self._connections.open:
            connection.announce_end()

    def retire(self) -> None:
        """Tell so all clients, and those of connections that were accepted already too."""
        self._connections.retired = True
        self.announce_end()

    async def shutdown(self, timeout: float) -> None:
        """Close connections after their streams, all within ``timeout`` seconds."""
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
