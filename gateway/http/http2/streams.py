"""The streams of one HTTP/2 connection: each request becomes an Exchange (section 2, RFC 9113)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from h2.errors import ErrorCodes
from h2.events import (
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

from partway.gateway.http.duplex import Parting
from partway.gateway.http.http2.connections import Connections
from partway.gateway.http.http2.exchange import Http2Exchange
from partway.gateway.http.http2.late_input import LateInput
from partway.gateway.http.http2.library import ServerLibrary, text
from partway.gateway.http.http2.lifetime import Http2Lifetime
from partway.gateway.http.http2.sending import Http2Sender, Outlet
from partway.gateway.http.http2.stream import Http2Stream
from partway.gateway.limits import HTTP2_ENCODER_TABLE
from partway.gateway.timing.clock import Clock
from partway.log_lines import LogLine
from partway.protocol.http2.flood_gate import FrameGate
from partway.protocol.http2.frames import rst_stream

log = logging.getLogger("partway.http2")

#: How a client leaves, by the code of its RST_STREAM; other codes name a fault (clause 2.1-4).
_PARTINGS: Final[Mapping[object, Parting]] = {
    ErrorCodes.NO_ERROR: Parting.IN_ORDER,
    ErrorCodes.CANCEL: Parting.CANCELLED,
}


class Http2Streams:
    """The streams of a connection, from a request's head to the client's last input.

    Reading is never paused here: back-pressure is each stream's own (clause 2.6-2).

    Attributes:
        open: streams that are not over, by their ids.
        late: streams that wait only for the client's end.
    """

    def __init__(
        self,
        library: ServerLibrary,
        gate: FrameGate,
        out: Outlet,
        sender: Http2Sender,
        lifetime: Http2Lifetime,
        siblings: Connections,
        *,
        open_streams: dict[int, Http2Stream],
        clock: Clock,
    ) -> None:
        self.open = open_streams
        self.late = LateInput(siblings, clock, give_credit=sender.give_credit, tell=self._tell_late)
        self._h2 = library
        self._gate = gate
        self._out = out
        self._sender = sender
        self._lifetime = lifetime
        self._dispatch = siblings.dispatch
        self._is_reserved = siblings.in_reserve
        self._loop = asyncio.get_running_loop()

    # --- For the connection ----------------------------------------------------------------------

    def reset_offending(self) -> None:
        """Reset streams with tiny DATA frames, or with input after their end (gate's 4 and 6)."""
        gate = self._gate
        for stream_id in gate.closed_streams:  # h2 has not seen these, and may have forgotten them
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

    def lose_all(self) -> None:
        for stream in list(self.open.values()):
            stream.lost()

    def lost(self) -> None:
        self.late.lost()
        self.lose_all()

    # --- Events of h2 ----------------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> None:
        """Act on an event of h2 other than DATA."""
        match event:
            case WindowUpdated(stream_id=stream_id):
                self._sender.window_opened(self.open.get(stream_id or 0))
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
                # h2 would let a client choose any size, and hpack searches the whole table for each
                # header that it encodes.
                encoder = self._h2.encoder
                table = min(encoder.header_table_size, HTTP2_ENCODER_TABLE)
                encoder.header_table_size = table
                if SettingCodes.INITIAL_WINDOW_SIZE in changed:
                    self._sender.initial_window_changed()
            case _:
                pass  # PRIORITY, our own settings acknowledged: nothing follows

    def _request_received(self, event: RequestReceived, now: float) -> None:
        stream_id = event.stream_id or 0
        received = event.headers or ()
        size = sum(len(name) + len(value) for name, value in received)
        self._gate.headers_decoded(len(received), size, now)
        if not self._lifetime.takes_a_stream() and not self._in_reserve(received):
            self.reset(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        headers = [(text(name), text(value)) for name, value in received]
        stream = self.open[stream_id] = Http2Stream(self._sender, self, stream_id)
        stream.opened_at = now
        self._lifetime.stream_began()
        exchange = Http2Exchange(
            *(stream, self._sender, headers, self._out.peer),
            visitor=self._lifetime.visitor,
            encrypted=self._out.encrypted,
        )
        stream.task = self._loop.create_task(self._answer(exchange, stream))

    def _in_reserve(self, headers: Sequence[tuple[str | bytes, str | bytes]]) -> bool:
        """Say whether a request beyond the limit gets a stream of the reserve."""
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
        if not by_client:  # h2 did, because of the client's input
            self._gate.reset_provoked(now)
            self._gate.stream_reset(stream_id)
        stream = self.open.get(stream_id)
        if stream is not None:
            self._lifetime.stream_reset(now - stream.opened_at)
            stream.lost(_PARTINGS.get(code, Parting.LOST) if by_client else Parting.LOST)

    # --- For streams -----------------------------------------------------------------------------

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        try:
            self._h2.reset_stream(stream_id, code)
        except ProtocolError:  # the client has reset it; the event that says so follows
            self._gate.stream_over(stream_id)
            return
        self._gate.stream_reset(stream_id)
        self._sender.soon()

    def await_end(self, stream_id: int, owed: int, *, unbegun: bool) -> None:
        self._lifetime.stream_unended()
        self.late.begin(stream_id, owed, unbegun=unbegun)

    def _tell_late(self, stream_id: int) -> None:
        self._lifetime.client_ended()
        # A client that sent GOAWAY closes the connection itself, when it has read everything.
        if self._lifetime.closing or not self._gate.client_goes:
            self.reset(stream_id, ErrorCodes.NO_ERROR)
        else:
            self._forget(stream_id)
        self._lifetime.close_if_done()

    def _forget(self, stream_id: int) -> None:
        """Have h2 forget a stream without telling the client.

        h2 looks at all its streams for each new one, so kept streams would cost ever more.
        """
        self._sender.flush_library()
        with suppress(ProtocolError):  # h2 has forgotten the stream
            self._h2.reset_stream(stream_id, ErrorCodes.NO_ERROR)
        self._h2.clear_outbound_data_buffer()
        self._gate.stream_reset(stream_id)

    def _client_ended(self, stream_id: int) -> None:
        if self.late.ended(stream_id):
            self._gate.stream_over(stream_id)
            self._lifetime.client_ended()

    def stream_over(self, stream: Http2Stream) -> None:
        del self.open[stream.stream_id]
        self._sender.stream_over(stream)
        if stream.stream_id not in self.late:
            self._gate.stream_over(stream.stream_id)
        self._lifetime.stream_over()

    def ping(self, payload: bytes) -> int:
        if not self._out.closed:
            self._gate.ping_sent()
        return self._sender.ping(payload)
