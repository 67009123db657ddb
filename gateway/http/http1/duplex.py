"""The duplex of an HTTP/1.1 exchange: chunked bodies in both directions (clauses 2.5-4, 2.7-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from partway.gateway.http.duplex import Duplex, DuplexHandler, Parting
from partway.protocol.connections.fair_turns import Cancellable
from partway.protocol.connections.tcp import half_close
from partway.protocol.http1.request import BodyBroken
from partway.protocol.lingering import Lingering

_LAST_CHUNK = b"0\r\n\r\n"


class BodyProgress(Protocol):
    @property
    def complete(self) -> bool:
        """Whether all of it has come."""

    @property
    def ended(self) -> bool:
        """Whether all of it has come, and been taken."""


class Http1Duplex(Duplex):
    """Both bodies of an exchange, whose heads have been read and written.

    The connection goes on parsing the request's chunks; a task of this object reads them. Each
    event of the response is one chunk, written to the transport at once (clause 2.7-1). This object
    also handles the transport's end, and then sets :attr:`closed`.

    Args:
        read: waits for more of it, as :meth:`RequestReader.read` does.
    """

    pingable = False

    def __init__(
        self,
        body: BodyProgress,
        read: Callable[[], Awaitable[bytes]],
        transport: asyncio.Transport,
    ) -> None:
        self.closed = asyncio.Event()
        self._body = body
        self._read_more = read
        self._transport = transport
        self._handler: DuplexHandler | None = None
        self._call_later: Callable[..., Cancellable]
        self._reader: asyncio.Task[None] | None = None
        self._may_read = asyncio.Event()
        self._request_ended = False
        self._held = 0
        self._written = 0
        self._finishing: Cancellable | None = None

    # --- Duplex ----------------------------------------------------------------------------------

    def start(
        self,
        handler: DuplexHandler,
        *,
        high_water: int,
        low_water: int,
        call_later: Callable[..., Cancellable],
    ) -> None:
        self._handler = handler
        self._call_later = call_later
        self._transport.set_write_buffer_limits(high=high_water, low=low_water)
        loop = asyncio.get_running_loop()
        if self.closed.is_set():
            loop.call_soon(self._tell_lost)
        else:
            self._reader = loop.create_task(self._read())

    def write(self, event: bytes) -> None:
        if event and self._finishing is None and not self._transport.is_closing():
            chunk = b"%x\r\n%b\r\n" % (len(event), event)
            self._written += len(chunk)
            self._transport.write(chunk)

    def finish(self, last: bytes, otherwise: bytes) -> None:
        """End the response; ``otherwise`` is not sent, since TCP cannot take bytes back.

        If the client does not take everything, the last chunk is not sent either. So the client
        sees that the response is incomplete.
        """
        if self._finishing is not None or self._transport.is_closing():
            return
        self.write(last)
        self._transport.write(_LAST_CHUNK)
        self._look_later(Lingering(self._transport.get_write_buffer_size()))
        if self._request_ended:
            self._transport.close()  # once unsent bytes are flushed
            return
        # Not close(): unread input would make TCP send RST, which erases the last event.
        half_close(self._transport)
        self._may_read.set()  # further input is dropped

    def abort(self) -> None:
        self._transport.abort()

    def pause_reading(self) -> None:
        if self._finishing is None:
            self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    def ping(self, payload: bytes) -> int:
        raise NotImplementedError("HTTP/1.1 has no ping")

    def flushed(self, position: int) -> bool:
        return self.taken_bytes >= position

    @property
    def buffered_bytes(self) -> int:
        return self._held + self._transport.get_write_buffer_size()

    @property
    def taken_bytes(self) -> int:
        return self._written - self._transport.get_write_buffer_size()

    # --- For the connection (OpenBothWays) -------------------------------------------------------

    def writing_paused(self) -> None:
        if self._handler is not None:
            self._handler.writing_paused()

    def writing_resumed(self) -> None:
        """Tell the owner that the transport's buffer is below its low-water mark again."""
        if self._handler is not None:
            self._handler.writing_resumed()

    def half_closed(self) -> bool:
        """Note that the client sends nothing more; return whether it can still receive."""
        if self._body.complete:  # its last chunk has come, if not yet been delivered
            return True
        if self._finishing is None:
            self._transport.abort()  # a cut; close() would wait for the client to take the rest
        return False

    def request_broken(self) -> None:
        """Treat the request as cut: its body is no valid chunk (clause 2.7-1)."""
        if self._finishing is None:
            self._transport.abort()
        else:
            self._transport.close()  # once unsent bytes are flushed

    def connection_lost(self) -> None:
        if self._finishing is not None:
            self._finishing.cancel()
        if self._reader is not None:
            self._reader.cancel()
        self.closed.set()
        self._tell_lost()

    # --- Internals -------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Deliver the request's body, then its end; after :meth:`finish`, drop it."""
        handler = self._handler
        assert handler is not None, "started"
        while True:
            await self._may_read.wait()
            try:
                data = await self._read_more()
            except (ConnectionError, BodyBroken):
                self.request_broken()  # the connection has logged the fault
                return
            self._held = len(data)
            await self._may_read.wait()
            self._held = 0
            if self._finishing is None and data:
                handler.data_received(data)
            if self._body.ended:
                break
        await self._may_read.wait()
        self._request_ended = True
        if self._finishing is None:
            handler.input_ended()
        else:
            self._transport.close()

    def _look_later(self, lingering: Lingering) -> None:
        self._finishing = self._call_later(lingering.interval, self._keep_finishing, lingering)

    def _keep_finishing(self, lingering: Lingering) -> None:
        unsent = self._transport.get_write_buffer_size()
        if not unsent:
            self._transport.close()  # the client has had time to send its rest
        elif lingering.look(unsent):
            self._look_later(lingering)
        else:
            self._transport.abort()

    def _tell_lost(self) -> None:
        if self._handler is not None:
            self._handler.connection_lost(Parting.LOST)
