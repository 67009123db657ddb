"""The way out of a connection: writes in bounds, and a close that loses nothing."""

from __future__ import annotations

import asyncio
import logging

from partway.protocol import limits
from partway.protocol.half_close import half_close

log = logging.getLogger("partway.http2")


class Outlet:
    """A transport's writing side. Its owner tells it when the transport is gone.

    Args:
        transport: of the connection.
        peer: its address, for logs.

    Attributes:
        written: bytes written since the beginning.
    """

    def __init__(self, transport: asyncio.Transport, peer: str) -> None:
        self.written = 0
        self._transport = transport
        self._peer = peer
        self._encrypted = transport.get_extra_info("sslcontext") is not None
        self._shut = False
        self._lost = False
        self._lingering: asyncio.TimerHandle | None = None
        self._lingers_left = round(limits.FINISH_TIMEOUT / limits.LINGER_TIMEOUT)

    @property
    def closed(self) -> bool:
        """Whether nothing more goes out, and nothing that comes in matters."""
        return self._lost or self._shut or self._transport.is_closing()

    @property
    def unsent(self) -> int:
        """Bytes that the socket has not taken."""
        return 0 if self._lost else self._transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Write; a client that takes nothing while it provokes more and more is cut."""
        if self.closed:
            return
        self.written += len(data)
        self._transport.write(data)
        if self.unsent > limits.WRITE_HIGH_WATER + limits.HTTP2_MAX_UNSENT:
            log.warning("a client takes no answers to its own frames peer=%s", self._peer)
            self._transport.abort()

    def close(self, *, gently: bool = False) -> None:
        """Close, once what is unsent is taken; a client that takes nothing of it is cut.

        Gently: what it still sends is dropped, until it ends its side and LINGER_TIMEOUT at most.
        Unread it would make TCP send RST, which erases the last events (clauses 2.3-6, 2.7-1).
        """
        if self.closed:
            return
        if gently and half_close(self._transport):
            self._shut = True
            self._transport.resume_reading()  # it may have waited for its turn
        else:
            self._transport.close()
        self._linger(None)

    def abort(self) -> None:
        """End the transport at once."""
        if not self._lost:
            self._transport.abort()

    def lost(self) -> None:
        """The transport is gone."""
        self._lost = True
        if self._lingering is not None:
            self._lingering.cancel()

    def _linger(self, before: int | None) -> None:
        """A closing connection lives while its unsent bytes shrink, within bounds (1.5-13)."""
        unsent = self.unsent
        self._lingers_left -= 1
        if before is None or (0 < unsent < before and self._lingers_left):
            loop = asyncio.get_running_loop()
            self._lingering = loop.call_later(limits.LINGER_TIMEOUT, self._linger, unsent)
        elif unsent or not self._encrypted:
            self.abort()
        # Else the rest is with the transport below TLS, which has its own time (the loop's
        # ssl_shutdown_timeout), and whose bytes nobody else can see.
