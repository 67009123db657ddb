"""HTTP/2 on h2: each stream becomes an Exchange (section 2 of the contract, RFC 9113)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import cast

from h2.config import H2Configuration
from h2.connection import H2Connection
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
from h2.settings import SettingCodes, Settings

from gateway.serving.exchange import Exchange
from gateway.serving.http2_stream import Http2Exchange, Http2Stream
from protocol import limits
from protocol.gathering import gathering
from protocol.http2_gate import FrameGate, frame, goaway, window_update

log = logging.getLogger("partway.http2")

# It writes every header that it decodes at debug level, and so tokens and signatures.
logging.getLogger("hpack").setLevel(logging.INFO)

Dispatch = Callable[[Exchange], Awaitable[None]]

#: DATA is put together up to this size before it is written, and streams take turns.
_WRITE_SIZE = 64 * limits.KIB

#: GOAWAY of a server that will still answer what is under way to it (RFC 9113 §6.8).
_EVERY_STREAM = 2**31 - 1

_SETTINGS = {
    SettingCodes.INITIAL_WINDOW_SIZE: limits.HTTP2_OPENING_WINDOW,
    SettingCodes.MAX_FRAME_SIZE: limits.HTTP2_MAX_FRAME,
    SettingCodes.MAX_HEADER_LIST_SIZE: limits.HTTP2_MAX_HEADER_LIST,
    SettingCodes.ENABLE_PUSH: 0,
}


class Http2Server:
    """Makes a protocol for each connection; the listener feeds it.

    Args:
        dispatch: answers an exchange.
        on_closed_to_new: told what a client sent too much of.
        max_streams: of one connection, open at once.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        on_closed_to_new: Callable[[str], None],
        max_streams: int = limits.HTTP2_MAX_STREAMS,
    ) -> None:
        self.dispatch = dispatch
        self.on_closed_to_new = on_closed_to_new
        self.max_streams = max_streams
        self.connections: set[Http2Connection] = set()
        self._gone = asyncio.Event()

    def protocol(self) -> asyncio.Protocol:
        """A protocol for one connection."""
        return Http2Connection(self)

    @property
    def open_connections(self) -> int:
        """How many connections it has."""
        return len(self.connections)

    def announce_end(self) -> None:
        """Tell clients that their next stream is better opened elsewhere."""
        for connection in self.connections:
            connection.announce_end()

    async def shutdown(self, timeout: float) -> None:
        """Close connections, now or once their streams are over; after ``timeout`` seconds all."""
        for connection in list(self.connections):
            connection.close_when_idle()
        try:
            async with asyncio.timeout(timeout):
                while self.connections:
                    self._gone.clear()
                    await self._gone.wait()
        except TimeoutError:
            for connection in list(self.connections):
                connection.abort()

    def connection_gone(self, connection: Http2Connection) -> None:
        """A connection is closed."""
        self.connections.discard(connection)
        self._gone.set()


class Http2Connection(asyncio.Protocol):
    """One connection, and the carrier of its streams.

    It is never paused for back-pressure: that is each stream's own (clause 2.6-2).
    """

    def __init__(self, server: Http2Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._h2 = _library()
        self._gate = FrameGate(self._loop.time())
        self._transport: asyncio.Transport | None = None
        self._peer = ""
        self._streams: dict[int, Http2Stream] = {}
        #: Streams with something to send, in their order; and those without window for it.
        self._sending: dict[Http2Stream, None] = {}
        self._starved: dict[Http2Stream, None] = {}
        self._dirty = False
        self._writing_paused = False
        self._written = 0
        self._owed_credit = 0
        self._hold_back = limits.HTTP2_HELD_BACK
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
        self._server.connections.add(self)
        self._write(_settings_frame(self._server.max_streams))
        self._write(window_update(limits.HTTP2_CONNECTION_WINDOW - limits.HTTP2_OPENING_WINDOW))
        self._idle_after(limits.REQUEST_HEAD_TIMEOUT)

    def data_received(self, data: bytes) -> None:
        self._gate.feed(data)
        if self._turn is None:
            self._take_turn()

    def eof_received(self) -> bool:
        return False  # a client that ends its side can send neither credit nor pongs: it has left

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._turn is not None:
            self._turn.cancel()
        if self._idle is not None:
            self._idle.cancel()
        for stream in list(self._streams.values()):
            stream.lost(cancelled=False)
        self._server.connection_gone(self)

    # --- From the server -------------------------------------------------------------------------

    def announce_end(self) -> None:
        """GOAWAY, while new streams are still answered (RFC 9113 §6.8)."""
        self._write(goaway(_EVERY_STREAM, ErrorCodes.NO_ERROR))

    def close_when_idle(self) -> None:
        """Take no new stream; close now, or once the last one is over."""
        if not self._closing:
            self._close_to_new(ErrorCodes.NO_ERROR)
        self._close_if_done()

    def abort(self) -> None:
        """End the transport at once."""
        if self._transport is not None:
            self._transport.abort()

    # --- Receiving -------------------------------------------------------------------------------

    def _take_turn(self) -> None:
        """Look at one turn's frames; what is left of a read waits while others have theirs."""
        self._turn = None
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        now = self._loop.time()
        outermost = gathering.begin()
        try:
            for event in self._h2.receive_data(self._gate.take(now)):
                self._handle(event, now)
            self._after_turn()
        except ProtocolError as error:
            log.info("bad HTTP/2 peer=%s: %s", self._peer, type(error).__name__)
            self._flush_library()  # h2 has put its GOAWAY there
            transport.close()
        finally:
            self._send_soon()
            if outermost:
                gathering.end()
        if self._gate.waiting and not transport.is_closing():
            if not self._reading_paused:
                self._reading_paused = True
                transport.pause_reading()  # until this connection's turn comes, and no longer
            self._turn = self._loop.call_soon(self._take_turn)
        elif self._reading_paused:
            self._reading_paused = False
            transport.resume_reading()

    def _handle(self, event: Event, now: float) -> None:
        match event:
            case DataReceived(stream_id=stream_id, data=data):
                size = event.flow_controlled_length or 0
                self._owed_credit += size  # on receipt (clause 2.6-2)
                stream = self._streams.get(stream_id)
                if stream is not None:
                    stream.data_received(data or b"", size)
            case WindowUpdated(stream_id=stream_id):
                self._window_opened(stream_id or 0)
            case RequestReceived():
                self._request_received(event, now)
            case StreamEnded(stream_id=stream_id):
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
                if SettingCodes.INITIAL_WINDOW_SIZE in changed:
                    self._initial_window_changed()
            case _:
                pass  # PRIORITY, our own settings acknowledged: nothing follows

    def _request_received(self, event: RequestReceived, now: float) -> None:
        stream_id = event.stream_id or 0
        if len(self._streams) >= self._server.max_streams:
            self.reset(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        headers = [(_text(name), _text(value)) for name, value in event.headers or ()]
        stream = self._streams[stream_id] = Http2Stream(self, stream_id)
        stream.opened_at = now
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        exchange = Http2Exchange(stream, self, headers, self._peer)
        stream.task = self._loop.create_task(self._answer(exchange, stream))

    async def _answer(self, exchange: Http2Exchange, stream: Http2Stream) -> None:
        try:
            await self._server.dispatch(exchange)
        finally:
            stream.task = None
            if not exchange.answered:
                exchange.abort()

    def _stream_reset(self, stream_id: int, code: object, now: float, *, by_client: bool) -> None:
        if not by_client:  # h2 did, for what the client had sent
            self._gate.reset_provoked(now)
            self._gate.stream_reset(stream_id)
        stream = self._streams.get(stream_id)
        if stream is not None:
            if now - stream.opened_at < limits.HTTP2_PREMATURE_SECONDS:
                self._streams_premature += 1
            stream.lost(cancelled=by_client and code == ErrorCodes.CANCEL)

    def _window_opened(self, stream_id: int) -> None:
        """More may be sent: on one stream, or (0) on all of them."""
        if stream_id == 0:
            self._sending |= self._starved
            self._starved.clear()
        else:
            stream = self._streams.get(stream_id)
            if stream in self._starved:
                del self._starved[stream]
                self._sending[stream] = None
        self._send_soon()

    def _initial_window_changed(self) -> None:
        initial = self._h2.remote_settings.initial_window_size
        holds = initial >= limits.HTTP2_HOLD_BACK_FROM
        self._hold_back = limits.HTTP2_HELD_BACK if holds else 0
        self._window_opened(0)

    def _after_turn(self) -> None:
        """What the gate has found, and the credit that is due."""
        gate = self._gate
        for stream_id in gate.overdoing:
            if stream_id in self._streams:
                log.warning("a stream of tiny DATA frames was reset peer=%s", self._peer)
                stream = self._streams[stream_id]
                self.reset(stream_id, ErrorCodes.ENHANCE_YOUR_CALM)
                stream.lost(cancelled=False)
        gate.overdoing.clear()
        too_much = None if self._closing else gate.overdone or self._premature_resets()
        if too_much is not None:
            log.warning(
                "a connection takes no more streams: too much of %s peer=%s", too_much, self._peer
            )
            self._server.on_closed_to_new(too_much)
            self._close_to_new(ErrorCodes.ENHANCE_YOUR_CALM)
        if self._owed_credit >= limits.HTTP2_CONNECTION_WINDOW // 4:
            self._h2.increment_flow_control_window(self._owed_credit)
            self._owed_credit = 0
        if gate.owed_credit >= limits.HTTP2_CONNECTION_WINDOW // 4:
            self._write(window_update(gate.owed_credit))  # h2 has not seen these bytes
            gate.owed_credit = 0
        if gate.client_goes or self._closing:
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
            self._h2.send_data(stream_id, data, end_stream=end)

    def wants_to_send(self, stream: Http2Stream) -> None:
        """Give the stream a turn."""
        if stream not in self._starved:
            self._sending[stream] = None
        self._send_soon()

    def window(self, stream_id: int, *, whole: bool) -> int:
        """Bytes that may be sent now."""
        stream = self._h2.streams.get(stream_id)
        if stream is None or self._transport is None:
            return 0
        own = stream.outbound_flow_control_window - (0 if whole else self._hold_back)
        return min(own, self._h2.outbound_flow_control_window)

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

    def stream_over(self, stream: Http2Stream) -> None:
        """Forget a stream."""
        self._streams.pop(stream.stream_id, None)
        self._sending.pop(stream, None)
        self._starved.pop(stream, None)
        self._gate.stream_over(stream.stream_id)
        self._streams_over += 1
        if not self._streams and self._transport is not None:
            if self._closing or self._gate.client_goes:
                self._loop.call_soon(self._close_if_done)  # behind what is being sent
            else:
                self._idle_after(limits.HTTP2_IDLE_TIMEOUT)

    def ping(self, payload: bytes) -> int:
        """Send PING; returns its position."""
        if self._transport is not None:
            self._h2.ping(payload)
            self._flush_library()
        return self._written

    def flushed(self, position: int) -> bool:
        """Whether the socket has taken everything up to ``position``."""
        return self._written - self._unsent() >= position

    # --- Sending ---------------------------------------------------------------------------------

    def _send_soon(self) -> None:
        """Send now, or with all else that comes of what is being read."""
        if self._dirty or self._transport is None:
            return
        batch = gathering.connections
        if batch is None:
            self.flush()
        else:
            self._dirty = True
            batch.append(self)

    def flush(self) -> None:
        """Let streams take turns, and write (protocol.gathering's business too)."""
        self._dirty = True  # what streams cause while they send is sent below
        while self._transport is not None:
            self._streams_send()
            if not self._flush_library():
                break
        self._dirty = False

    def _streams_send(self) -> None:
        budget = _WRITE_SIZE
        while self._sending and budget > 0 and not self._writing_paused:
            stream = next(iter(self._sending))
            del self._sending[stream]
            sent = stream.send_frame()
            budget -= sent
            if sent and stream.wants_to_send:
                self._sending[stream] = None
            elif stream.wants_to_send:
                self._starved[stream] = None

    def _flush_library(self) -> bool:
        data = self._h2.data_to_send()
        if data:
            self._write(data)
        return bool(data)

    def _write(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._written += len(data)
        transport.write(data)
        if self._unsent() > limits.WRITE_HIGH_WATER + limits.HTTP2_MAX_UNSENT:
            log.warning("a client takes no answers to its own frames peer=%s", self._peer)
            transport.abort()

    def _unsent(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    # --- The end ---------------------------------------------------------------------------------

    def _idle_after(self, seconds: float) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = self._loop.call_later(seconds, self.close_when_idle)

    def _close_to_new(self, code: ErrorCodes) -> None:
        # Not by h2, which would send nothing more itself.
        self._closing = True
        self._gate.close_to_new()
        self._write(goaway(self._gate.last_stream, code))

    def _close_if_done(self) -> None:
        if not self._streams and self._transport is not None:
            self.flush()
            if self._transport is not None:
                self._transport.close()


def _library() -> H2Connection:
    connection = H2Connection(
        H2Configuration(
            client_side=False,
            header_encoding=None,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
    )
    # One stream too many is refused by itself; h2 would end the connection, so it gets no limit.
    connection.local_settings = Settings(client=False, initial_values=dict(_SETTINGS))
    connection.initiate_connection()
    connection.clear_outbound_data_buffer()  # ours, with that limit, goes in its place
    connection.increment_flow_control_window(
        limits.HTTP2_CONNECTION_WINDOW - limits.HTTP2_OPENING_WINDOW
    )
    connection.clear_outbound_data_buffer()
    return connection


def _settings_frame(max_streams: int) -> bytes:
    settings = {**_SETTINGS, SettingCodes.MAX_CONCURRENT_STREAMS: max_streams}
    pairs = [
        int(key).to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in settings.items()
    ]
    return frame(0x4, 0, 0, b"".join(pairs))


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")
