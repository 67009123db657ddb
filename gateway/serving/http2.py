"""HTTP/2: makes a connection of each transport, and closes them all in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from partway.gateway.serving.http2_connection import Http2Connection
from partway.gateway.serving.http2_connections import Connections, Dispatch
from partway.gateway.serving.strangers import AccountFrom
from partway.protocol.limits import HTTP2_MAX_STREAMS


class Http2Server:
    """Makes a protocol for each connection; the listener feeds it.

    Args:
        dispatch: answers an exchange.
        account_from: makes what a connection from an address costs.
        on_closed_to_new: told what a client sent too much of.
        max_streams: streams that one connection may have open at once.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        account_from: AccountFrom,
        on_closed_to_new: Callable[[str], None],
        max_streams: int = HTTP2_MAX_STREAMS,
    ) -> None:
        self._connections = Connections(dispatch, on_closed_to_new, max_streams, account_from)

    def protocol(self) -> asyncio.Protocol:
        """A protocol for one connection."""
        return Http2Connection(self._connections)

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
