"""One HTTP/2 connection on h2: each stream becomes an Exchange (section 2, RFC 9113)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import cast

from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    PingAckReceived,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes

from partway.gateway.serving.http2_connections import Connections
from partway.gateway.serving.http2_library import PlainData, server_library, settings_frame, text
from partway.gateway.serving.http2_stream import Http2Exchange, Http2Stream
from partway.gateway.serving.http2_turns import SendingTurns
from partway.gateway.serving.outlet import Outlet
from partway.protocol import limits
from partway.protocol.gathering import gathering
from partway.protocol.http2_frames import goaway, window_update
from partway.protocol.http2_gate import FrameGate

log = logging.getLogger("partway.http2")

#: DATA is put together up to this size before it is written, and streams take turns.
_WRITE_SIZE = 64 * limits.KIB

#: GOAWAY of a server that will still answer what is under way to it (RFC 9113 §6.8).
_EVERY_STREAM = 2**31 - 1


class Http2Connection(asyncio.Protocol):
    """One connection, and the carrier of its streams.

    It is never paused for back-pressure: that is each stream's own (clause 2.6-2).
    """

    def __init__(self, siblings: Connections) -> None:
        self._siblings = siblings
        self._loop = asyncio.get_running_loop()
        self._h2 = server_library()
        self._gate = FrameGate(self._loop.time(), siblings.max_streams)
        self._transport: asyncio.Transport | None = None
        self._out: Outlet
        self._peer = ""
        self._streams: dict[int, Http2Stream] = {}
        #: Streams that are over but for the client's end of them, and when they are reset.
        self._unended: dict[int, asyncio.TimerHandle] = {}
        self._turns = SendingTurns(self)
        self._dirty = False
        self._writing_paused = False
        self._owed_credit = 0
        self._hold_back = limits.HTTP2_HELD_BACK
        self._uncut = limits.HTTP2_OPENING_WINDOW // 4
        self._turn: asyncio.Handle | None = None
        self._reading_paused = False
        self._idle: asyncio.TimerHandle | None = None
        self._closing = False
        self._streams_over = 0
        self._streams_premature = 0

    # --- asyncio's callbacks ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(
            high=limits.WRITE_HIGH_WATER, low=limits.WRITE_LOW_WATER
        )
        peer = transport.get_extra_info("peername")
        self._peer = peer[0] if peer else ""
        self._out = Outlet(self._transport, self._peer, self._loop.call_later)
        self._siblings.open.add(self)
        self._out.write(settings_frame(self._siblings.max_streams))
        self._out.write(window_update(limits.HTTP2_CONNECTION_WINDOW - limits.HTTP2_OPENING_WINDOW))
        self._idle_after(limits.REQUEST_HEAD_TIMEOUT)

    def data_received(self, data: bytes) -> None:
        if self._out.closed:
            return
        self._gate.feed(data)
        if self._turn is None and self._gate.waiting:  # bytes that dribble in cost no turn each
            self._take_turn()

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
        self._transport = None
        if self._turn is not None:
            self._turn.cancel()
        self._out.lost()
        for timer in (self._idle, *self._unended.values()):
            if timer is not None:
                timer.cancel()
        for stream in list(self._streams.values()):
            stream.lost(cancelled=False)
        self._siblings.open.discard(self)
        self._siblings.closed.set()

    # --- From the server -------------------------------------------------------------------------

    def announce_end(self) -> None:
        """GOAWAY, while new streams are still answered (RFC 9113 §6.8)."""
        if not self._closing:  # its last stream's number may not go up again
            self._out.write(goaway(_EVERY_STREAM, ErrorCodes.NO_ERROR))

    def close_when_idle(self) -> None:
        """Take no new stream; close now, or once the last one is over."""
        if not self._closing:
            self._close_to_new(ErrorCodes.NO_ERROR)
        self._close_if_done()

    def abort(self) -> None:
        """End the transport at once."""
        self._out.abort()

    # --- Receiving -------------------------------------------------------------------------------

    def _take_turn(self) -> None:
        """Look at one turn's frames; what is left of a read waits while others have theirs."""
        self._turn = None
        transport = self._transport
        if transport is None or self._out.closed:
            return
        now = self._loop.time()
        outermost = gathering.begin()
        try:
            frames = self._gate.take(now)
            # Before its first stream a connection has to say its preface, which is no frame.
            receive = self._h2.receive_frames if self._streams else self._h2.receive_data
            for event in receive(frames):
                if isinstance(event, PlainData):
                    self._data_received(event.stream_id, event.data, len(event.data))
                else:
                    self._handle(event, now)
            self._after_turn()
            if self._gate.oversized:
                log.info("bad HTTP/2 peer=%s: a frame that is too large", self._peer)
                self._flush_library()
                self._out.write(goaway(self._gate.last_stream, ErrorCodes.FRAME_SIZE_ERROR))
                self._give_up()
        except ProtocolError as error:
            log.info("bad HTTP/2 peer=%s: %s", self._peer, type(error).__name__)
            self._flush_library()  # h2 has put its GOAWAY there
            self._give_up()
        finally:
            self._send_soon()
            if outermost:
                gathering.end()
        if self._gate.waiting and not self._out.closed:
            if not self._reading_paused:
                self._reading_paused = True
                transport.pause_reading()  # until this connection's turn comes, and no longer
            self._turn = self._loop.call_soon(self._take_turn)
        elif self._reading_paused:
            self._reading_paused = False
            transport.resume_reading()

    def _data_received(self, stream_id: int, data: bytes, size: int) -> None:
        self._owed_credit += size  # on receipt (clause 2.6-2)
        stream = self._streams.get(stream_id)
        if stream is not None:
            stream.data_received(data, size)

    def _give_up(self) -> None:
        """Close after a fault of the client's: nothing more can be said on any stream."""
        self._out.close()
        for stream in list(self._streams.values()):
            stream.lost(cancelled=False)

    def _handle(self, event: Event, now: float) -> None:
        match event:
            case DataReceived(stream_id=stream_id, data=data):
                self._data_received(stream_id, data or b"", event.flow_controlled_length or 0)
            case WindowUpdated(stream_id=stream_id):
                self._window_opened(stream_id or 0)
            case RequestReceived():
                self._request_received(event, now)
            case StreamEnded(stream_id=stream_id):
                self._client_ended(stream_id or 0)
                stream = self._streams.get(stream_id or 0)
                if stream is not None:
                    stream.request_ended()
            case StreamReset(stream_id=stream_id, remote_reset=remote, error_code=code):
                self._stream_reset(stream_id or 0, code, now, by_client=bool(remote))
            case PingAckReceived(ping_data=payload) if payload:
                stream = self._streams.get(int.from_bytes(payload[:4], "big"))
                if stream is not None:
                    stream.pong_received(payload)
            case RemoteSettingsChanged(changed_settings=changed):
                # h2 would let a client have any size, and hpack looks through all of the table for
                # each header that it encodes.
                encoder = self._h2.encoder
                table = min(encoder.header_table_size, limits.HTTP2_ENCODER_TABLE)
                encoder.header_table_size = table
                if SettingCodes.INITIAL_WINDOW_SIZE in changed:
                    self._initial_window_changed()
            case _:
                pass  # PRIORITY, our own settings acknowledged: nothing follows

    def _request_received(self, event: RequestReceived, now: float) -> None:
        stream_id = event.stream_id or 0
        received = event.headers or ()
        size = sum(len(name) + len(value) for name, value in received)
        self._gate.headers_decoded(len(received), size, now)
        streams = len(self._streams) + len(self._unended)
        if streams >= self._siblings.max_streams or self._siblings.full():
            self.reset(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        headers = [(text(name), text(value)) for name, value in received]
        stream = self._streams[stream_id] = Http2Stream(self, stream_id)
        self._siblings.streams += 1
        stream.opened_at = now
        stream.uncut = self._uncut
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        exchange = Http2Exchange(stream, self, headers, self._peer)
        stream.task = self._loop.create_task(self._answer(exchange, stream))

    async def _answer(self, exchange: Http2Exchange, stream: Http2Stream) -> None:
        try:
            await self._siblings.dispatch(exchange)
        finally:
            stream.task = None
            if not exchange.answered:
                exchange.abort()

    def _stream_reset(self, stream_id: int, code: object, now: float, *, by_client: bool) -> None:
        self._client_ended(stream_id)
        if not by_client:  # h2 did, for what the client had sent
            self._gate.reset_provoked(now)
            self._gate.stream_reset(stream_id)
        stream = self._streams.get(stream_id)
        if stream is not None:
            if now - stream.opened_at < limits.HTTP2_PREMATURE_SECONDS:
                self._streams_premature += 1
            stream.lost(cancelled=by_client and code == ErrorCodes.CANCEL)

    def _window_opened(self, stream_id: int) -> None:
        """More may be sent: on one stream, or (0) on all of them together."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._turns.window_opened(stream)
        self._send_soon()

    def _initial_window_changed(self) -> None:
        initial = self._h2.remote_settings.initial_window_size
        holds = initial >= limits.HTTP2_HOLD_BACK_FROM
        self._hold_back = limits.HTTP2_HELD_BACK if holds else 0
        self._uncut = initial // 4 if holds else 0  # a client that reads leaves half of it open
        for stream in self._streams.values():
            stream.uncut = self._uncut
        self._turns.every_window_changed()
        self._send_soon()

    def _after_turn(self) -> None:
        """What the gate has found, and the credit that is due."""
        gate = self._gate
        for stream_id in gate.overdoing:
            if stream_id in self._streams:
                log.warning("a stream of tiny DATA frames was reset peer=%s", self._peer)
                stream = self._streams[stream_id]
                self.reset(stream_id, ErrorCodes.ENHANCE_YOUR_CALM)
                stream.lost(cancelled=False)
            elif stream_id in self._unended:
                self._client_ended(stream_id)
                self.reset(stream_id, ErrorCodes.NO_ERROR)
        gate.overdoing.clear()
        too_much = None if self._closing else gate.overdone or self._premature_resets()
        if too_much is not None:
            log.warning(
                "a connection takes no more streams: too much of %s peer=%s", too_much, self._peer
            )
            self._siblings.on_closed_to_new(too_much)
            self._close_to_new(ErrorCodes.ENHANCE_YOUR_CALM)
        if self._owed_credit >= limits.HTTP2_CONNECTION_WINDOW // 4:
            self._h2.increment_flow_control_window(self._owed_credit)
            self._owed_credit = 0
        if gate.owed_credit >= limits.HTTP2_CONNECTION_WINDOW // 4:
            self._out.write(window_update(gate.owed_credit))  # h2 has not seen these bytes
            gate.owed_credit = 0
        if self._closing:
            self._close_if_done()

    def _premature_resets(self) -> str | None:
        """Rapid reset below the rate that the gate lets pass, for as long as one likes."""
        over = self._streams_over
        limit = limits.HTTP2_PREMATURE_SHARE * over
        many = over >= limits.HTTP2_PREMATURE_AFTER and self._streams_premature > limit
        return "premature resets" if many else None

    # --- Carrier ---------------------------------------------------------------------------------

    def send_head(self, stream_id: int, headers: list[tuple[str, str]]) -> None:
        """Send a response's head, together with what follows it."""
        with suppress(ProtocolError):  # the client has reset it; the event that says so follows
            self._h2.send_headers(stream_id, headers)

    def send_data(self, stream_id: int, data: bytes, *, end: bool) -> None:
        """Send one DATA frame, within the window."""
        with suppress(ProtocolError):  # as above
            if end:
                self._h2.send_data(stream_id, data, end_stream=True)
            else:
                self._h2.send_plain_data(stream_id, data)
        self._send_soon()

    def wants_to_send(self, stream: Http2Stream) -> None:
        """Give the stream a turn."""
        self._turns.add(stream)
        self._send_soon()

    def window(self, stream_id: int, *, whole: bool) -> int:
        """Bytes that may be sent now."""
        stream = self._h2.streams.get(stream_id)
        if stream is None or self._transport is None:
            return 0
        own = stream.outbound_flow_control_window - (0 if whole else self._hold_back)
        return min(own, self._h2.outbound_flow_control_window)

    def own_window(self, stream: Http2Stream) -> int:
        """What a stream's own window has for what it sends next (see :class:`SendingTurns`)."""
        library = self._h2.streams.get(stream.stream_id)
        held_back = 0 if stream.uses_whole_window else self._hold_back
        return library.outbound_flow_control_window - held_back if library is not None else 0

    def shared_window(self) -> int:
        """What the connection's window has."""
        return self._h2.outbound_flow_control_window

    def give_credit(self, stream_id: int, size: int) -> None:
        """Let the client send more on a stream."""
        try:
            self._h2.increment_flow_control_window(size, stream_id)
        except (ProtocolError, KeyError):  # h2 has forgotten the stream
            return
        self._send_soon()

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        """Send RST_STREAM."""
        try:
            self._h2.reset_stream(stream_id, code)
        except ProtocolError:
            return  # as above
        self._gate.stream_reset(stream_id)
        self._send_soon()

    def reset_late(self, stream_id: int) -> None:
        """Send RST_STREAM(NO_ERROR), if the client does not end the stream soon.

        Not at once, whatever RFC 9113 §8.1 says of it: node takes any reset for an abort, and the
        JavaScript SDK then drops what it has not read; the Python SDK's writer fails on what it
        has sent meanwhile, and closing the stream waits for ever (clause 2.3-6).
        """
        self._unended[stream_id] = self._loop.call_later(
            limits.HTTP2_RESET_DELAY, self._reset_unended, stream_id
        )

    def _reset_unended(self, stream_id: int) -> None:
        self._client_ended(stream_id)
        # Who has said that it goes closes the connection itself, when it has read everything.
        if self._closing or not self._gate.client_goes:
            self.reset(stream_id, ErrorCodes.NO_ERROR)
        else:
            self._gate.stream_reset(stream_id)
        if self._closing:
            self._close_if_done()

    def _client_ended(self, stream_id: int) -> None:
        timer = self._unended.pop(stream_id, None)
        if timer is not None:
            timer.cancel()
            self._gate.stream_over(stream_id)

    def stream_over(self, stream: Http2Stream) -> None:
        """Forget a stream."""
        if self._streams.pop(stream.stream_id, None) is not None:
            self._siblings.streams -= 1
        self._turns.remove(stream)
        if stream.stream_id not in self._unended:
            self._gate.stream_over(stream.stream_id)
        self._streams_over += 1
        if not self._streams and self._transport is not None:
            if self._closing:
                self._loop.call_soon(self._close_if_done)  # behind what is being sent
            elif self._gate.client_goes:
                self._idle_after(limits.REQUEST_HEAD_TIMEOUT)  # it closes when it has read all
            else:
                self._idle_after(limits.HTTP2_IDLE_TIMEOUT)

    def ping(self, payload: bytes) -> int:
        """Send PING; returns its position."""
        if not self._out.closed:
            self._gate.ping_sent()
            self._h2.ping(payload)
            self._flush_library()
        return self._out.written

    def flushed(self, position: int) -> bool:
        """Whether the socket has taken everything up to ``position``."""
        return self._out.written - self._out.unsent >= position

    # --- Sending ---------------------------------------------------------------------------------

    def _send_soon(self) -> None:
        """Send now, or with all else that comes of what is being read."""
        if self._dirty or self._transport is None:
            return
        batch = gathering.connections
        if batch is None:
            self.flush()
        elif len(self._streams) > 1:
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
            while self._transport is not None:
                if not self._writing_paused:
                    self._turns.send(_WRITE_SIZE)
                if not self._flush_library():
                    break
        finally:
            self._dirty = False

    def _flush_library(self) -> bool:
        data = self._h2.data_to_send()
        if data:
            self._out.write(data)
        return bool(data)

    # --- The end ---------------------------------------------------------------------------------

    def _idle_after(self, seconds: float) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = self._loop.call_later(seconds, self.close_when_idle)

    def _close_to_new(self, code: ErrorCodes) -> None:
        # Not by h2, which would send nothing more itself.
        self._closing = True
        self._gate.close_to_new()
        self._out.write(goaway(self._gate.last_stream, code))

    def _close_if_done(self) -> None:
        if not self._streams and not self._unended and self._transport is not None:
            self.flush()
            self._out.close(gently=True)
