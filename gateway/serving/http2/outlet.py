"""The way out of a connection: writes in bounds, and a close that loses nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from partway.gateway.limits import HTTP2_MAX_UNSENT
from partway.log_lines import LogLine
from partway.protocol import limits
from partway.protocol.connection import Cancellable
from partway.protocol.half_close import half_close
from partway.protocol.lingering import Lingering

log = logging.getLogger("partway.http2")


class Outlet:
    """A transport's writing side. Its owner tells it when the transport is gone.

    Args:
        transport: the connection's transport.
        peer: the client's address, for logs.
        call_later: calls back after a time, as the event loop does.

    Attributes:
        written: bytes written since the beginning.
        peer: the client's address.
        gone: whether the transport is gone.
        encrypted: whether there is TLS under it.
    """

    def __init__(
        self, transport: asyncio.Transport, peer: str, call_later: Callable[..., Cancellable]
    ) -> None:
        self.written = 0
        self._transport = transport
        self.peer = peer
        self.gone = False
        self._call_later = call_later
        self.encrypted = transport.get_extra_info("sslcontext") is not None
        self._shut = False
        self._finishing: Cancellable | None = None

    @property
    def closed(self) -> bool:
        """Whether nothing more goes out, and nothing that comes in matters."""
        return self.gone or self._shut or self._transport.is_closing()

    @property
    def unsent(self) -> int:
        """Bytes that the socket has not taken."""
        return 0 if self.gone else self._transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Write bytes; a client that takes nothing while it provokes more and more is cut."""
        if self.closed:
            return
        self.written += len(data)
        self._transport.write(data)
        if self.unsent > limits.WRITE_HIGH_WATER + HTTP2_MAX_UNSENT:
            log.warning(LogLine("a client takes no answers to its own frames", peer=self.peer))
            self._transport.abort()

    def close(self, *, gently: bool = False) -> None:
        """Close, once what is unsent is taken; a client that takes nothing of it is cut.

        Args:
            gently: read and drop what the client still sends, until it ends its side, for
                LINGER_TIMEOUT at most. Unread bytes would make TCP send RST, which erases the last
                events (clauses 2.3-6, 2.7-1).
        """
        if self.closed:
            return
        if gently and half_close(self._transport):
            self._shut = True
            self._transport.resume_reading()  # it may have waited for its turn
        else:
            self._transport.close()
        self._look_later(Lingering(self.unsent))

    def abort(self) -> None:
        """End the transport at once."""
        if not self.gone:
            self._transport.abort()

    def lost(self) -> None:
        """Note that the transport is gone."""
        if self._finishing is not None:
            self._finishing.cancel()
        if not self.gone:
            self.gone = True
            del self._transport  # and TLS's buffers with it

    def _look_later(self, lingering: Lingering) -> None:
        self._finishing = self._call_later(lingering.interval, self._keep_finishing, lingering)

    def _keep_finishing(self, lingering: Lingering) -> None:
        unsent = self.unsent
        if unsent and lingering.look(unsent):
            self._look_later(lingering)
        elif unsent or not self.encrypted:
            self.abort()
        # Else the rest is with the transport below TLS, which has its own time (the loop's
        # ssl_shutdown_timeout), and whose bytes nobody else can see.
