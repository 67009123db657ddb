"""The listener: accepts connections, looks at their first bytes, hands them on (clause 2.5-6)."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol, cast

from protocol.limits import ACCEPT_BACKLOG, MAX_CONNECTIONS, OPENING_TIMEOUT
from protocol.opening import Opening, opening_of

log = logging.getLogger("partway.listener")

#: To a client that opens with HTTP/2: our (empty) SETTINGS, without which it would see a broken
#: connection, and GOAWAY with HTTP_1_1_REQUIRED (RFC 9113 §3.4, §6.8, §7).
_HTTP2_REFUSAL = bytes.fromhex("000000 04 00 00000000") + bytes.fromhex(
    "000008 07 00 00000000 00000000 0000000d"
)


class HttpServer(Protocol):
    """Makes a protocol for each connection that speaks its version of HTTP."""

    def protocol(self) -> asyncio.Protocol:
        """A protocol for one connection, not yet connected."""

    @property
    def open_connections(self) -> int:
        """How many of its connections are open."""


class Listener:
    """One listening port.

    Args:
        http1: serves connections that speak HTTP/1.1.
        max_connections: open at once; more are closed as they come.
    """

    def __init__(self, http1: HttpServer, max_connections: int = MAX_CONNECTIONS) -> None:
        self.http1 = http1
        self._max_connections = max_connections
        self._server: asyncio.Server | None = None
        #: Connections that have not said yet what they speak.
        self.opening: set[asyncio.Transport] = set()

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns the address, with the real port where 0 was asked for.

        Raises:
            OSError: the address is taken, or not ours.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Opening(self), host, port, backlog=ACCEPT_BACKLOG
        )
        address = self._server.sockets[0].getsockname()
        return address[0], address[1]

    def full(self) -> bool:
        """Whether no more connections are taken."""
        return len(self.opening) + self.http1.open_connections >= self._max_connections

    def stop(self) -> None:
        """Accept nothing more; connections that have said something stay."""
        if self._server is not None:
            self._server.close()
        for transport in list(self.opening):
            transport.abort()


class _Opening(asyncio.Protocol):
    """A connection until its first bytes have said what it speaks.

    It has ``OPENING_TIMEOUT`` for them; the HTTP server's own deadline begins after that.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._received = b""
        self._transport: asyncio.Transport
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._listener.full():
            log.warning("a connection was refused: the listener is full")
            self._transport.abort()
            return
        self._listener.opening.add(self._transport)
        self._deadline = asyncio.get_running_loop().call_later(
            OPENING_TIMEOUT, self._transport.abort
        )

    def data_received(self, data: bytes) -> None:
        self._received += data
        match opening_of(self._received):
            case Opening.HTTP1:
                self._let_go()
                protocol = self._listener.http1.protocol()
                self._transport.set_protocol(protocol)
                protocol.connection_made(self._transport)
                protocol.data_received(self._received)
            case Opening.HTTP2:
                self._transport.write(_HTTP2_REFUSAL)
                self._transport.close()
            case Opening.UNDECIDED:
                pass

    def connection_lost(self, exc: Exception | None) -> None:
        self._let_go()

    def _let_go(self) -> None:
        self._listener.opening.discard(self._transport)
        if self._deadline is not None:
            self._deadline.cancel()
