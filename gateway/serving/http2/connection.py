"""One HTTP/2 connection on asyncio: reading in turns, writing in bounds (RFC 9113 on h2)."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final, cast

from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError

from partway.gateway.limits import (
    HTTP2_CONNECTION_BYTES,
    HTTP2_CONNECTION_WINDOW,
    HTTP2_OPENING_WINDOW,
    HTTP2_STREAM_BYTES,
    STRANGER_TURN,
    TLS_READ_HELD,
)
from partway.gateway.serving.crowd import Visitor, uncounted
from partway.gateway.serving.http2.library import server_library, settings_frame
from partway.gateway.serving.http2.lifetime import Connections, Http2Lifetime
from partway.gateway.serving.http2.outlet import Outlet
from partway.gateway.serving.http2.streams import Http2Streams
from partway.log_lines import LogLine
from partway.protocol import limits
from partway.protocol.connection import Cancellable
from partway.protocol.gathering import gathering
from partway.protocol.http2.frames import goaway, window_update
from partway.protocol.http2.gate import FrameGate
from partway.protocol.prompt_acks import acknowledge, prompt_acks
from partway.protocol.rounds import rounds

log = logging.getLogger("partway.http2")

#: HAProxy 2.6 resets a stream that it has not opened where the server does not announce RFC 8441.
_WEBSOCKET_OVER_HTTP2: Final = (
    "a proxy probably tried to open a WebSocket over HTTP/2 (RFC 8441), which is not supported; "
    "WebSockets must come over HTTP/1.1: in HAProxy add `ws h1` beside `proto h2`"
)

#: DATA is put together up to this size before it is written, and streams take turns.
_WRITE_SIZE = 64 * limits.KIB


class Http2Connection(asyncio.Protocol):
    """A transport's protocol: bytes go by the gate to the streams, and from them to the transport.

    What becomes of frames is the business of :class:`Http2Streams`; which streams there may be, and
    when the connection closes, that of :class:`Http2Lifetime`.

    Args:
        siblings: the connections of its server.
        visitor: the connection, as the crowd has it.
    """

    def __init__(self, siblings: Connections, visitor: Visitor | None = None) -> None:
        self._siblings = siblings
        self._visitor = visitor or uncounted()
        self._largest_read = 0
        self._loop = asyncio.get_running_loop()
        self._h2 = server_library()
        self._gate = FrameGate(self._loop.time(), siblings.max_streams)
        self._transport: asyncio.Transport
        self._out: Outlet
        self._lifetime: Http2Lifetime
        self._streams: Http2Streams
        self._dirty = False
        self._writing_paused = False
        self._turn: Cancellable | None = None
        self._reading_paused = False
        self._written_before_read = 0
        self._acknowledges_soon = False

    # --- asyncio's callbacks ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked with isinstance: uvloop's transports derive from no class of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(
            high=limits.WRITE_HIGH_WATER, low=limits.WRITE_LOW_WATER
        )
        peer = transport.get_extra_info("peername")
        call_later = self._loop.call_later
        self._out = Outlet(self._transport, peer[0] if peer else "", call_later)
        self._lifetime = Http2Lifetime(
            self._gate,
            self._out,
            self._siblings,
            flush=self.flush,
            on_closing=lambda: self._streams.late.close_soon(),
            call_later=call_later,
            visitor=self._visitor,
        )
        self._visitor.drop = self._lifetime.drop
        self._visitor.weighs(HTTP2_CONNECTION_BYTES)
        self._streams = Http2Streams(
            self._h2,
            self._gate,
            self._out,
            self._lifetime,
            self._siblings,
            send_soon=self._send_soon,
            clock=self._loop,
        )
        self._siblings.open.add(self._lifetime)
        self._out.write(settings_frame(self._siblings.max_streams))
        self._out.write(window_update(HTTP2_CONNECTION_WINDOW - HTTP2_OPENING_WINDOW))

    def data_received(self, data: bytes) -> None:
        if self._out.closed:
            return
        self._written_before_read = self._out.written
        if not self._acknowledges_soon:
            self._acknowledges_soon = True
            prompt_acks.soon(self)
        self._gate.feed(data)
        if self._turn is None and self._gate.waiting:  # bytes that dribble in cost no turn each
            if not self._visitor.account.known or (len(data) > limits.LONG_READ and rounds.busy()):
                self._yield_turn()
            else:
                self._take_turn()
        if not self._visitor.busy:
            self._largest_read = max(self._largest_read, len(data))
            self._weigh()

    def _weigh(self) -> None:
        """Say what is held while no stream is under way; what streams hold is bounded with them."""
        read = self._largest_read * TLS_READ_HELD if self._out.encrypted else 0
        streams = self._lifetime.streams * HTTP2_STREAM_BYTES
        frames = self._gate.held * 5 // 4  # pieces of 16 KiB leave gaps between them
        self._visitor.holds(frames + self._out.unsent + streams + read)

    def eof_received(self) -> bool:
        # A client that ends its side can send neither credit nor pongs: it has left. What is unsent
        # is not waited for longer than for others.
        self._out.close()
        return False

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._turn is not None:
            self._turn.cancel()
        self._out.lost()
        self._visitor.account.left(encrypted=self._out.encrypted)
        self._lifetime.lost()
        self._streams.lost()
        # The connection's objects refer to each other, and go much later than what they hold.
        self._gate.drop()
        del self._transport
        self._siblings.open.discard(self._lifetime)
        self._siblings.closed.set()

    def acknowledge(self) -> None:
        """Acknowledge the last read, unless something has been written since."""
        self._acknowledges_soon = False
        if not self._out.gone and self._out.written == self._written_before_read:
            acknowledge(self._transport)

    # --- Receiving -------------------------------------------------------------------------------

    def _log_fault(self, reason: str) -> None:
        log.info(LogLine("bad HTTP/2", peer=self._out.peer, reason=reason))

    def _tell_unopened_reset(self) -> None:
        """Say what resets of streams that were never opened are a sign of."""
        if self._gate.unopened_reset:
            self._gate.unopened_reset = False
            line = "a reset of a stream that was never opened"
            log.warning(LogLine(line, peer=self._out.peer, reason=_WEBSOCKET_OVER_HTTP2))

    def _take_turn(self) -> None:
        """Take one turn's frames; the rest of a read waits while other connections have turns."""
        self._turn = None
        if self._out.closed:
            return
        waits = self._visitor.account.has_to_wait(self._take_turn)
        if waits is not None:
            self._pause_reading()
            self._turn = waits
            return
        now = self._loop.time()
        account = self._visitor.account
        began = 0.0 if account.known else time.thread_time()
        outermost = gathering.begin()
        try:
            self._streams.receive(self._gate.take(now), now)
            self._after_turn()
            if self._gate.oversized:
                self._log_fault("a frame that is too large")
                self._flush_library()
                self._out.write(goaway(self._gate.last_stream, ErrorCodes.FRAME_SIZE_ERROR))
                self._give_up()
        except ProtocolError as error:
            if not self._gate.unopened_reset:
                self._log_fault(type(error).__name__)
            self._flush_library()  # h2 has put its GOAWAY there
            self._give_up()
        finally:
            self._tell_unopened_reset()
            if began and not account.known:
                # HPACK can be made dear, and no request need come of it.
                account.draw(min(time.thread_time() - began, STRANGER_TURN))
            self._send_soon()
            if outermost:
                gathering.end()
        if self._gate.waiting and not self._out.closed:
            self._yield_turn()
        elif self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

    def _yield_turn(self) -> None:
        """Let others have the loop; until this connection's turn comes, and no longer."""
        self._pause_reading()
        self._turn = rounds.soon(self._take_turn)

    def _pause_reading(self) -> None:
        if not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def _after_turn(self) -> None:
        """Act on what the gate has found, and give the credit that is due."""
        if self._gate.overdoing or self._gate.closed_streams:
            self._streams.reset_offending()
        self._lifetime.review()
        self._streams.give_connection_credit()
        self._lifetime.close_if_done()

    def _give_up(self) -> None:
        """Close the connection after a fault of the client's."""
        self._out.close()
        self._streams.lose_all()

    # --- Sending ---------------------------------------------------------------------------------

    def _send_soon(self) -> None:
        """Send now, or during a read with everything else that comes of it."""
        if self._dirty or self._out.gone:
            return
        batch = gathering.connections
        if batch is None:
            self.flush()
        elif len(self._streams.open) > 1:
            # Containers of other streams may have answered at the same time: one write for all.
            self._dirty = True
            self._loop.call_soon(self.flush)
        else:
            self._dirty = True
            batch.append(self)

    def flush(self) -> None:
        """Let streams take turns, and write (partway.protocol.gathering's business too)."""
        self._dirty = True  # what streams cause while they send is sent below
        try:
            while not self._out.gone:
                if not self._writing_paused:
                    self._streams.turns.send(_WRITE_SIZE)
                if not self._flush_library():
                    break
        finally:
            self._dirty = False
        if not self._visitor.busy:
            self._weigh()

    def _flush_library(self) -> bool:
        data = self._h2.data_to_send()
        if data:
            self._out.write(data)
        return bool(data)
