"""One HTTP/2 connection on asyncio: it reads frames in turns (RFC 9113 on h2).

:class:`Http2Connection` is the transport's protocol, :class:`Http2FrameReader` cuts its bytes into
frames. :mod:`partway.gateway.http.http2.sending` decides when bytes leave.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final, cast

from h2.errors import ErrorCodes
from h2.events import DataReceived
from h2.exceptions import ProtocolError

from partway.gateway.http.connection_admission import Visitor, uncounted
from partway.gateway.http.http2.connections import Connections
from partway.gateway.http.http2.library import ServerLibrary, server_library, settings_frame
from partway.gateway.http.http2.lifetime import Http2Lifetime
from partway.gateway.http.http2.sending import Http2Sender, Outlet
from partway.gateway.http.http2.stream import Http2Stream
from partway.gateway.http.http2.streams import Http2Streams
from partway.gateway.limits import (
    HTTP2_CONNECTION_BYTES,
    HTTP2_CONNECTION_WINDOW,
    HTTP2_OPENING_WINDOW,
    HTTP2_STREAM_BYTES,
    STRANGER_TURN,
    TLS_READ_HELD,
)
from partway.log_lines import LogLine
from partway.protocol import limits
from partway.protocol.connections.batched_writes import batched_writes
from partway.protocol.connections.fair_turns import Cancellable, rounds
from partway.protocol.connections.prompt_acks import acknowledge, prompt_acks
from partway.protocol.http2.flood_gate import FrameGate
from partway.protocol.http2.frames import DATA, HEAD, HEAD_BYTES, STREAM_ID, goaway, window_update
from partway.protocol.http2.preface import HTTP2_PREFACE

log = logging.getLogger("partway.http2")

#: HAProxy 2.6 resets a stream that it has not opened if the server does not announce RFC 8441.
_WEBSOCKET_OVER_HTTP2: Final = (
    "a proxy probably tried to open a WebSocket over HTTP/2 (RFC 8441), which is not supported; "
    "WebSockets must come over HTTP/1.1: in HAProxy add `ws h1` beside `proto h2`"
)

#: The connection's credit is given back in steps of this size.
_CREDIT_STEP: Final = HTTP2_CONNECTION_WINDOW // 4


class Http2FrameReader:
    """Cuts a connection's bytes into frames, which pass the gate and then h2.

    Plain DATA goes to its stream; h2 counts it and does not see its payload. The owner calls
    :meth:`feed`, and :meth:`take_turn` as long as :attr:`waiting`.

    Rules:
        1. Only whole frames are handed on. A frame over HTTP2_MAX_FRAME is refused by its head
        alone (RFC 9113 §4.2): h2 would first gather all of it.
        2. h2 and the streams see everything before plain DATA before it is judged.
        3. The connection's credit goes back on receipt of DATA, whichever stream it is for (clause
        2.6-2).

    Attributes:
        oversized: whether a frame was announced that is too large: later bytes cannot be
            understood.
    """

    def __init__(
        self, gate: FrameGate, library: ServerLibrary, streams: Http2Streams, out: Outlet
    ) -> None:
        self.oversized = False
        self._gate = gate
        self._h2 = library
        self._streams = streams
        self._open = streams.open
        self._out = out
        self._buffer = b""
        self._preface_left = len(HTTP2_PREFACE)
        self._owed_credit = 0

    def feed(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        if self._gate.in_block:
            self._gate.announced(self._buffer[:HEAD_BYTES])

    @property
    def held(self) -> int:
        return len(self._buffer) + self._gate.held

    @property
    def waiting(self) -> bool:
        """Whether a whole frame waits for its turn, or a head that announces one too large."""
        size = len(self._buffer)
        if self._preface_left:
            return size > 0
        if self.oversized or size < HEAD_BYTES:
            return False
        length = int.from_bytes(self._buffer[:3], "big")
        return size >= HEAD_BYTES + length or length > limits.HTTP2_MAX_FRAME

    def drop(self) -> None:
        self._buffer = b""

    def take_turn(self, now: float) -> None:
        """Hand on one turn's frames.

        Raises:
            ProtocolError: the client broke RFC 9113; h2 has a GOAWAY to send that says so.
        """
        gate, buffer = self._gate, self._buffer
        self._buffer = b""  # a frame whose delivery fails is not delivered again
        pieces: list[bytes] = []  # frames for h2, up to ``run``
        run = 0
        at = min(self._preface_left, len(buffer))
        self._preface_left -= at
        if not self._preface_left:
            gate.begin_turn()
        while gate.turn_left > 0 and at + HEAD_BYTES <= len(buffer):
            gate.turn_left -= 1
            high, low, kind, flags, number = HEAD.unpack_from(buffer, at)
            size = high << 8 | low
            payload_at = at + HEAD_BYTES
            end = payload_at + size
            if size > limits.HTTP2_MAX_FRAME:
                self.oversized = True  # rule 1
                break
            if end > len(buffer):
                break
            stream_id = number & STREAM_ID
            if kind == DATA and not gate.in_block:
                plain = not flags
                if plain and (pieces or run < at):
                    self._hand_to_library(pieces, buffer[run:at], now)  # rule 2
                    run = at
                if not gate.takes_data(size, flags, stream_id, now):
                    pieces.append(buffer[run:at])
                    run = end
                elif plain and self._h2.takes_plain_data(stream_id, size):
                    self._data_received(stream_id, buffer[payload_at:end], size)
                    run = end
            else:
                instead = gate.instead(buffer[at:end], kind, flags, stream_id, now)
                if instead is not None:
                    pieces += (buffer[run:at], instead)
                    run = end
            at = end
        self._buffer = buffer[at:]
        if gate.in_block:
            gate.announced(self._buffer[:HEAD_BYTES])
        pieces += (buffer[run:at], gate.end_turn())
        self._hand_to_library(pieces, b"", now)

    def give_credit(self) -> None:
        """Let the client send more on all streams together, in large steps (rule 3)."""
        if self._owed_credit >= _CREDIT_STEP:
            self._h2.increment_flow_control_window(self._owed_credit)
            self._owed_credit = 0
        gate = self._gate
        if gate.owed_credit >= _CREDIT_STEP:
            self._out.write(window_update(gate.owed_credit))  # h2 has not seen these bytes
            gate.owed_credit = 0

    def _hand_to_library(self, pieces: list[bytes], last: bytes, now: float) -> None:
        """Hand pieces to h2, and its events to the streams; the pieces are cleared."""
        frames = b"".join((*pieces, last))
        pieces.clear()
        if not frames:
            return
        for event in self._h2.receive_data(frames):
            if isinstance(event, DataReceived):
                size = event.flow_controlled_length or 0
                self._data_received(event.stream_id or 0, event.data or b"", size)
            else:
                self._streams.handle(event, now)

    def _data_received(self, stream_id: int, data: bytes, size: int) -> None:
        self._owed_credit += size
        stream = self._open.get(stream_id)
        if stream is not None:
            stream.data_received(data, size)
        else:
            self._streams.late.received(stream_id, size)


class Http2Connection(asyncio.Protocol):
    """The protocol of a transport: it reads in turns with other connections, and feeds the streams.

    It makes the other objects of the connection. :class:`Http2Streams` has the streams,
    :class:`Http2Sender` sends, and :class:`Http2Lifetime` decides when the connection closes.
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
        self._sender: Http2Sender
        self._lifetime: Http2Lifetime
        self._streams: Http2Streams
        self._reader: Http2FrameReader
        self._turn: Cancellable | None = None
        self._reading_paused = False
        self._written_before_read = 0
        self._acknowledges_soon = False

    # --- asyncio's callbacks ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked by isinstance: uvloop's transports derive from no class of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(
            high=limits.WRITE_HIGH_WATER, low=limits.WRITE_LOW_WATER
        )
        peer = transport.get_extra_info("peername")
        call_later = self._loop.call_later
        self._out = Outlet(self._transport, peer[0] if peer else "", call_later)
        open_streams: dict[int, Http2Stream] = {}
        self._sender = Http2Sender(self._out, self._h2, open_streams, self._weigh_if_idle)
        self._lifetime = Http2Lifetime(
            self._gate,
            self._out,
            self._siblings,
            flush=self._sender.flush,
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
            self._sender,
            self._lifetime,
            self._siblings,
            open_streams=open_streams,
            clock=self._loop,
        )
        self._reader = Http2FrameReader(self._gate, self._h2, self._streams, self._out)
        self._siblings.open.add(self._lifetime)
        self._out.write(settings_frame(self._siblings.max_streams))
        self._out.write(window_update(HTTP2_CONNECTION_WINDOW - HTTP2_OPENING_WINDOW))
        if self._siblings.retired:
            self._lifetime.announce_end()

    def data_received(self, data: bytes) -> None:
        if self._out.closed:
            return
        self._written_before_read = self._out.written
        if not self._acknowledges_soon:
            self._acknowledges_soon = True
            prompt_acks.soon(self)
        self._reader.feed(data)
        if self._turn is None and self._reader.waiting:  # dribbled bytes do not cost a turn each
            if not self._visitor.account.known or (len(data) > limits.LONG_READ and rounds.busy()):
                self._yield_turn()
            else:
                self._take_turn()
        if not self._visitor.busy:
            self._largest_read = max(self._largest_read, len(data))
            self._weigh_if_idle()

    def _weigh_if_idle(self) -> None:
        """Report the memory held while no stream is under way; streams have bounds of their own."""
        if self._visitor.busy:
            return
        read = self._largest_read * TLS_READ_HELD if self._out.encrypted else 0
        streams = self._lifetime.streams * HTTP2_STREAM_BYTES
        frames = self._reader.held * 5 // 4  # pieces of 16 KiB leave gaps between them
        self._visitor.holds(frames + self._out.unsent + streams + read)

    def eof_received(self) -> bool:
        # A client that ends its side can send neither credit nor pongs: it has left. Unsent bytes
        # get the usual time, and no more.
        self._out.close()
        return False

    def pause_writing(self) -> None:
        self._sender.pause()

    def resume_writing(self) -> None:
        self._sender.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._turn is not None:
            self._turn.cancel()
        self._out.lost()
        self._visitor.account.left(encrypted=self._out.encrypted)
        self._lifetime.lost()
        self._streams.lost()
        # These objects refer to each other, and are collected much later than the bytes they hold.
        self._gate.drop()
        self._reader.drop()
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
        """Log the likely cause of resets of streams that were never opened."""
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
        outermost = batched_writes.begin()
        try:
            self._reader.take_turn(now)
            self._after_turn()
            if self._reader.oversized:
                self._log_fault("a frame that is too large")
                self._sender.flush_library()
                self._out.write(goaway(self._gate.last_stream, ErrorCodes.FRAME_SIZE_ERROR))
                self._give_up()
        except ProtocolError as error:
            if not self._gate.unopened_reset:
                self._log_fault(type(error).__name__)
            self._sender.flush_library()  # h2 has a GOAWAY there
            self._give_up()
        finally:
            self._tell_unopened_reset()
            if began and not account.known:
                # HPACK can be made expensive without any request.
                account.draw(min(time.thread_time() - began, STRANGER_TURN))
            self._sender.soon()
            if outermost:
                batched_writes.end()
        if self._reader.waiting and not self._out.closed:
            self._yield_turn()
        elif self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

    def _yield_turn(self) -> None:
        self._pause_reading()
        self._turn = rounds.soon(self._take_turn)

    def _pause_reading(self) -> None:
        if not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def _after_turn(self) -> None:
        """Act on the gate's findings, and give the credit that is due."""
        if self._gate.overdoing or self._gate.closed_streams:
            self._streams.reset_offending()
        self._lifetime.review()
        self._reader.give_credit()
        self._lifetime.close_if_done()

    def _give_up(self) -> None:
        self._out.close()
        self._streams.lose_all()
