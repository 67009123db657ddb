"""The streams of one HTTP/2 connection: each becomes an Exchange (section 2, RFC 9113)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

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

from partway.gateway.clock import Clock
from partway.gateway.limits import (
    HTTP2_CONNECTION_WINDOW,
    HTTP2_ENCODER_TABLE,
    HTTP2_HELD_BACK,
    HTTP2_HOLD_BACK_FROM,
    HTTP2_OPENING_WINDOW,
)
from partway.gateway.serving.duplex import Parting
from partway.gateway.serving.http2.exchange import Http2Exchange
from partway.gateway.serving.http2.late_input import LateInput
from partway.gateway.serving.http2.library import PlainData, ServerLibrary, text
from partway.gateway.serving.http2.lifetime import Connections, Http2Lifetime
from partway.gateway.serving.http2.outlet import Outlet
from partway.gateway.serving.http2.stream import Http2Stream
from partway.gateway.serving.http2.turns import SendingTurns
from partway.log_lines import LogLine
from partway.protocol.http2.frames import rst_stream, window_update
from partway.protocol.http2.gate import FrameGate

log = logging.getLogger("partway.http2")

#: What a client's RST_STREAM says of how it leaves; other codes name a fault (clause 2.1-4).
_PARTINGS: Final[Mapping[object, Parting]] = {
    ErrorCodes.NO_ERROR: Parting.IN_ORDER,
    ErrorCodes.CANCEL: Parting.CANCELLED,
}


class Http2Streams:
    """Takes what h2 tells of a connection's streams to them, and what they send to h2.

    The object is the streams' carrier, and knows their windows. Reading is never paused here:
    back-pressure is each stream's own (clause 2.6-2).

    Args:
        library: the connection's h2.
        gate: the connection's gate.
        out: the connection's way out.
        lifetime: says which streams the connection takes, and is told of their ends.
        siblings: the connections of its server.
        send_soon: makes the owner send what h2 has, and let :attr:`turns` send, soon.
        clock: tells the time, and calls back after a time.

    Attributes:
        open: streams that are not over, by their ids.
        late: streams that are over but for the client's end of them.
        turns: the streams with something to send.
    """

    def __init__(
        self,
        library: ServerLibrary,
        gate: FrameGate,
        out: Outlet,
        lifetime: Http2Lifetime,
        siblings: Connections,
        *,
        send_soon: Callable[[], None],
        clock: Clock,
    ) -> None:
        self.open: dict[int, Http2Stream] = {}
        self.late = LateInput(siblings, clock, give_credit=self.give_credit, tell=self._tell_late)
        self.turns = SendingTurns(self)
        self._h2 = library
        self._gate = gate
        self._out = out
        self._lifetime = lifetime
        self._dispatch = siblings.dispatch
        self._is_reserved = siblings.in_reserve
        self._send_soon = send_soon
        self._loop = asyncio.get_running_loop()
        self._owed_credit = 0
        self._hold_back = HTTP2_HELD_BACK
        self._uncut = HTTP2_OPENING_WINDOW // 4

    # --- From the connection ---------------------------------------------------------------------

    def receive(self, frames: bytes, now: float) -> None:
        """Take in a turn's frames, which the gate has let pass.

        Raises:
            ProtocolError: the client broke RFC 9113; h2 has a GOAWAY to send that says so.
        """
        # Before its first stream a connection has to say its preface, which is no frame.
        receive = self._h2.receive_frames if self.open else self._h2.receive_data
        for event in receive(frames):
            if isinstance(event, PlainData):
                self._data_received(event.stream_id, event.data, len(event.data))
            else:
                self._handle(event, now)

    def reset_offending(self) -> None:
        """Reset streams that send too many tiny DATA frames, or are over (the gate's 4 and 6)."""
        gate = self._gate
        for stream_id in gate.closed_streams:  # which h2 has not seen, and may have forgotten
            self._out.write(rst_stream(stream_id, ErrorCodes.STREAM_CLOSED))
        gate.closed_streams.clear()
        for stream_id in gate.overdoing:
            if stream_id in self.open:
                log.warning(LogLine("a stream of tiny DATA frames was reset", peer=self._out.peer))
                stream = self.open[stream_id]
                self.reset(stream_id, ErrorCodes.ENHANCE_YOUR_CALM)
                stream.lost()
            elif stream_id in self.late:
                self._client_ended(stream_id)
                self.reset(stream_id, ErrorCodes.NO_ERROR)
        gate.overdoing.clear()

    def give_connection_credit(self) -> None:
        """Let the client send more on all streams together, in large steps."""
        if self._owed_credit >= HTTP2_CONNECTION_WINDOW // 4:
            self._h2.increment_flow_control_window(self._owed_credit)
            self._owed_credit = 0
        gate = self._gate
        if gate.owed_credit >= HTTP2_CONNECTION_WINDOW // 4:
            self._out.write(window_update(gate.owed_credit))  # h2 has not seen these bytes
            gate.owed_credit = 0

    def lose_all(self) -> None:
        """End every stream: nothing more can be sent on the connection."""
        for stream in list(self.open.values()):
            stream.lost()

    def lost(self) -> None:
        """Note that the transport is gone."""
        self.late.lost()
        self.lose_all()

    # --- What h2 tells ---------------------------------------------------------------------------

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
                stream = self.open.get(stream_id or 0)
                if stream is not None:
                    stream.request_ended()
            case StreamReset(stream_id=stream_id, remote_reset=remote, error_code=code):
                self._stream_reset(stream_id or 0, code, now, by_client=bool(remote))
            case PingAckReceived(ping_data=payload) if payload:
                stream = self.open.get(int.from_bytes(payload[:4], "big"))
                if stream is not None:
                    stream.pong_received(payload)
            case RemoteSettingsChanged(changed_settings=changed):
                # h2 would let a client have any size, and hpack looks through all of the table for
                # each header that it encodes.
                encoder = self._h2.encoder
                table = min(encoder.header_table_size, HTTP2_ENCODER_TABLE)
                encoder.header_table_size = table
                if SettingCodes.INITIAL_WINDOW_SIZE in changed:
                    self._initial_window_changed()
            case _:
                pass  # PRIORITY, our own settings acknowledged: nothing follows

    def _data_received(self, stream_id: int, data: bytes, size: int) -> None:
        self._owed_credit += size  # on receipt (clause 2.6-2)
        stream = self.open.get(stream_id)
        if stream is not None:
            stream.data_received(data, size)
        else:
            self.late.received(stream_id, size)

    def _request_received(self, event: RequestReceived, now: float) -> None:
        stream_id = event.stream_id or 0
        received = event.headers or ()
        size = sum(len(name) + len(value) for name, value in received)
        self._gate.headers_decoded(len(received), size, now)
        if not self._lifetime.takes_a_stream() and not self._in_reserve(received):
            self.reset(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        headers = [(text(name), text(value)) for name, value in received]
        stream = self.open[stream_id] = Http2Stream(self, stream_id)
        stream.opened_at = now
        stream.uncut = self._uncut
        self._lifetime.stream_began()
        exchange = Http2Exchange(
            *(stream, self, headers, self._out.peer),
            visitor=self._lifetime.visitor,
            encrypted=self._out.encrypted,
        )
        stream.task = self._loop.create_task(self._answer(exchange, stream))

    def _in_reserve(self, headers: Sequence[tuple[str | bytes, str | bytes]]) -> bool:
        """Whether a request that there is no stream for has one in the reserve."""
        said = {text(name): text(value) for name, value in headers}
        path = said.get(":path", "").partition("?")[0]
        asks = self._is_reserved(said.get(":method", ""), path)
        return asks and self._lifetime.takes_a_stream(reserved=True)

    async def _answer(self, exchange: Http2Exchange, stream: Http2Stream) -> None:
        try:
            await self._dispatch(exchange)
        finally:
            stream.task = None
            if not exchange.answered:
                exchange.abort()

    def _stream_reset(self, stream_id: int, code: object, now: float, *, by_client: bool) -> None:
        self._client_ended(stream_id)
        if not by_client:  # h2 did, for what the client had sent
            self._gate.reset_provoked(now)
            self._gate.stream_reset(stream_id)
        stream = self.open.get(stream_id)
        if stream is not None:
            self._lifetime.stream_reset(now - stream.opened_at)
            stream.lost(_PARTINGS.get(code, Parting.LOST) if by_client else Parting.LOST)

    def _window_opened(self, stream_id: int) -> None:
        """Note that more may be sent: on one stream, or (``stream_id`` 0) on all together."""
        stream = self.open.get(stream_id)
        if stream is not None:
            self.turns.window_opened(stream)
        self._send_soon()

    def _initial_window_changed(self) -> None:
        initial = self._h2.remote_settings.initial_window_size
        holds = initial >= HTTP2_HOLD_BACK_FROM
        self._hold_back = HTTP2_HELD_BACK if holds else 0
        self._uncut = initial // 4 if holds else 0  # a client that reads leaves half of it open
        for stream in self.open.values():
            stream.uncut = self._uncut
        self.turns.every_window_changed()
        self._send_soon()

    # --- Carrier ---------------------------------------------------------------------------------

    def send_head(
        self, stream_id: int, headers: list[tuple[str, str]], *, end: bool = False
    ) -> None:
        """Send a response's head, together with what follows it; or what ends it, its trailers."""
        with suppress(ProtocolError):  # the client has reset it; the event that says so follows
            self._h2.send_headers(stream_id, headers, end_stream=end)
        if end:
            self._send_soon()

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
        self.turns.add(stream)
        self._send_soon()

    def window(self, stream_id: int, *, whole: bool) -> int:
        """Bytes that may be sent now."""
        stream = self._h2.streams.get(stream_id)
        if stream is None or self._out.gone:
            return 0
        own = stream.outbound_flow_control_window - (0 if whole else self._hold_back)
        return min(own, self._h2.outbound_flow_control_window)

    def own_window(self, stream: Http2Stream) -> int:
        """Bytes that a stream's own window has for what the stream sends next."""
        library = self._h2.streams.get(stream.stream_id)
        held_back = 0 if stream.uses_whole_window else self._hold_back
        return library.outbound_flow_control_window - held_back if library is not None else 0

    def shared_window(self) -> int:
        """Bytes that the connection's window has."""
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
        except ProtocolError:  # as above
            self._gate.stream_over(stream_id)
            return
        self._gate.stream_reset(stream_id)
        self._send_soon()

    def await_end(self, stream_id: int, owed: int, *, unbegun: bool) -> None:
        """Wait for the client's end of a stream, and reset it if that does not come."""
        self._lifetime.stream_unended()
        self.late.begin(stream_id, owed, unbegun=unbegun)

    def _tell_late(self, stream_id: int) -> None:
        self._lifetime.client_ended()
        # Who has said that it goes closes the connection itself, when it has read everything.
        if self._lifetime.closing or not self._gate.client_goes:
            self.reset(stream_id, ErrorCodes.NO_ERROR)
        else:
            self._forget(stream_id)
        self._lifetime.close_if_done()

    def _forget(self, stream_id: int) -> None:
        """Have h2 let go of a stream, and say nothing of it to the client.

        For each new stream h2 looks at all that it has: those that are kept cost ever more.
        """
        unsent = self._h2.data_to_send()
        with suppress(ProtocolError):  # h2 has forgotten the stream
            self._h2.reset_stream(stream_id, ErrorCodes.NO_ERROR)
        self._h2.clear_outbound_data_buffer()
        if unsent:
            self._out.write(unsent)
        self._gate.stream_reset(stream_id)

    def _client_ended(self, stream_id: int) -> None:
        if self.late.ended(stream_id):
            self._gate.stream_over(stream_id)
            self._lifetime.client_ended()

    def stream_over(self, stream: Http2Stream) -> None:
        """Forget a stream."""
        del self.open[stream.stream_id]
        self.turns.remove(stream)
        if stream.stream_id not in self.late:
            self._gate.stream_over(stream.stream_id)
        self._lifetime.stream_over()

    def ping(self, payload: bytes) -> int:
        """Send PING; returns its position for :meth:`flushed`."""
        if not self._out.closed:
            self._gate.ping_sent()
            self._h2.ping(payload)
            self._out.write(self._h2.data_to_send())
        return self._out.written

    def flushed(self, position: int) -> bool:
        """Whether the socket has taken everything up to ``position``."""
        return self._out.written - self._out.unsent >= position
