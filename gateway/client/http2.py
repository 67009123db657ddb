"""Streams over HTTP/2: the event streams of AWS's SDKs (section 2 of the contract).

Each stream has a connection of its own. So back-pressure of TCP and HTTP/2 concerns one stream
only, and the connection ends with the stream.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    PingAckReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from partway.gateway.client.errors import ConnectionLost, PartwayError, refused, unreachable
from partway.gateway.client.http2_request import RequestBody
from partway.gateway.client.request import Headers, StreamRequest
from partway.gateway.client.server_frames import BadFrames, ServerFrames
from partway.gateway.client.wire import Wire, WireOwner
from partway.gateway.limits import (
    HTTP2_CONNECTION_WINDOW,
    HTTP2_MAX_UNSENT,
    HTTP2_OPENING_WINDOW,
    HTTP2_STREAM_WINDOW,
)
from partway.gateway.network.dialling import Unreachable, reach
from partway.protocol import limits
from partway.protocol.event_stream.part_headers import EventFault
from partway.protocol.event_stream.response_events import ResponseEvents
from partway.protocol.event_stream.writer import CONTENT_TYPE, encode_part
from partway.protocol.http.content_types import media_type_of
from partway.protocol.http2.frames import goaway
from partway.protocol.parts import PayloadPart
from partway.protocol.signatures.verification import EventSigner
from partway.protocol.websocket.handshake import INPUT_END_HEADER, SPEAKS_TLS

# At debug level it logs every encoded header, and so signatures and session tokens.
logging.getLogger("hpack").setLevel(logging.INFO)

#: The id of a connection's only stream.
_STREAM: Final = 1

_SETTINGS: Final = {
    SettingCodes.ENABLE_PUSH: 0,
    SettingCodes.INITIAL_WINDOW_SIZE: HTTP2_STREAM_WINDOW,
    SettingCodes.MAX_FRAME_SIZE: limits.HTTP2_MAX_FRAME,
    SettingCodes.MAX_HEADER_LIST_SIZE: limits.HTTP2_MAX_HEADER_LIST,
}

#: Flow-control credit is given back in steps of this many bytes.
_CREDIT_STEP: Final = HTTP2_STREAM_WINDOW // 4

#: Payload of the ping whose answer confirms that the gateway has seen the end. Pings of the
#: liveness watch have counters.
_LEAVING: Final = b"leaving\n"


async def open_http2(
    request: StreamRequest, *, connect_timeout: float, open_timeout: float
) -> Wire:
    """Send a request, and wait for the head of its response.

    Raises:
        GatewayUnreachable: no gateway answers at the request's URL.
        StreamRefused: the gateway refused the stream.
        ValueError: the CA's file holds no certificate, or cannot be read.
    """
    tls = request.context("h2")
    try:
        transport, wire = await reach(request.address, Http2Wire, timeout=connect_timeout, tls=tls)
        try:
            if tls is not None:
                _check_alpn(transport)
            wire.ask(*request.post(time.time()))
            await wire.answered(open_timeout)
        except BaseException:
            wire.abort()
            raise
    except Unreachable as error:
        raise unreachable(request.url, error) from None
    return wire


def _check_alpn(transport: asyncio.Transport) -> None:
    agreed = transport.get_extra_info("ssl_object").selected_alpn_protocol()
    if agreed != "h2":  # RFC 9113 §3.2
        raise Unreachable(
            f"the server does not speak HTTP/2: TLS agreed on {agreed or 'no protocol'}",
            passing=False,
        )


class Http2Wire(asyncio.Protocol, Wire):
    """An HTTP/2 connection with one stream, whose two bodies carry events.

    The connection is always read, and its credit given back on receipt; only the stream's is
    withheld while reading is paused (clause 2.6-2). While reading goes on every byte is credited,
    so an event may be larger than a window (clause 2.6-3).
    """

    pongs_wait = False

    def __init__(self) -> None:
        self.request_id = self.input_end = ""
        self._loop = asyncio.get_running_loop()
        self._h2 = _library()
        self._frames = ServerFrames()
        self._transport: asyncio.Transport | None = None
        self._owner: WireOwner | None = None
        self._gone: str | None = None
        self._finishing: asyncio.TimerHandle | None = None
        self._written = 0
        # The response.
        self._head: asyncio.Future[None] = self._loop.create_future()
        self._status = 0
        self._headers: dict[str, str] = {}
        self._refusal = bytearray()
        self._events = ResponseEvents(limits.MAX_PART_BYTES)
        self._reading = True
        self._delivering = False
        self._over = False
        self._outcome: PartwayError | None = None
        self._outcome_told = False
        self._owed_credit = 0
        self._connection_owed = 0
        self._body = RequestBody(self._h2, _STREAM, None, self._flush)

    # --- Opening ---------------------------------------------------------------------------------

    def ask(self, headers: Headers, signer: EventSigner | None) -> None:
        """Send the request's head; ``signer`` signs the events after it, None leaves them bare."""
        self._body = RequestBody(self._h2, _STREAM, signer, self._flush)
        self._h2.send_headers(_STREAM, headers)
        self._flush()

    async def answered(self, timeout: float) -> None:
        """Wait until the stream is granted.

        Raises:
            StreamRefused: the gateway refused the stream.
            Unreachable: no answer came within ``timeout`` seconds, or before the connection ended.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._head
        except TimeoutError:
            if self._status:  # of a refusal with an incomplete body
                raise refused(self._status, self._headers, bytes(self._refusal)) from None
            raise Unreachable(f"no answer to the request within {timeout:g} s") from None

    # --- Wire ------------------------------------------------------------------------------------

    def start(self, owner: WireOwner) -> None:
        self._owner = self._body.owner = owner
        self._deliver()
        if self._gone is not None:
            owner.lost()

    def send(self, part: PayloadPart) -> None:
        self._body.send(encode_part(part))

    def end_input(self) -> None:
        self._body.end()

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._deliver()
        self._flush()

    @property
    def reading(self) -> bool:
        return self._reading

    @property
    def buffered_bytes(self) -> int:
        return self._events.buffered_bytes + self._body.held_bytes + self._unsent()

    def ping(self, payload: bytes) -> int:
        if self._transport is not None and self._finishing is None:
            self._h2.ping(payload)
            self._flush()
        return self._written

    def flushed(self, position: int) -> bool:
        return self._written - self._unsent() >= position

    def finish(self, *, cancel: bool) -> None:
        transport = self._transport
        if transport is None or self._finishing is not None:
            return
        self._finishing = self._loop.call_later(limits.LINGER_TIMEOUT, self.abort)
        # Data without credit is dropped. A part may be cut then, so the end is not in good order.
        cancel = cancel or self._body.held_bytes > 0
        self._body.drop()
        if self._over:
            self._leave(transport)
            return
        # Closing with unread input sends TCP's RST, which may erase earlier output. So this waits
        # for the answer to a ping after the reset, or for the gateway's own end.
        self._over = True
        # Without END_STREAM, since the gateway would let the container finish for no client.
        self._h2.reset_stream(_STREAM, ErrorCodes.CANCEL if cancel else ErrorCodes.NO_ERROR)
        self._h2.ping(_LEAVING)
        self._flush()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio's callbacks ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # The rest waits in the queue of this object, where parts are still whole.
        self._transport.set_write_buffer_limits(
            high=limits.WRITE_LOW_WATER, low=limits.WRITE_LOW_WATER // 4
        )

    def data_received(self, data: bytes) -> None:
        try:
            for piece in self._frames.take(data):
                for event in self._h2.receive_data(piece):
                    self._handle(event)
        except BadFrames as error:
            self._broken(str(error))
        except ProtocolError as error:
            self._flush()  # h2 has a GOAWAY there
            self._broken(f"bad HTTP/2 from the gateway: {type(error).__name__}")
        else:
            said = self._frames.goaway
            if said is not None and said.last_stream_id < _STREAM and not self._over:
                self._ended_by("the gateway takes no more streams on this connection")
        self._deliver()
        if self._connection_owed >= _CREDIT_STEP:
            owed, self._connection_owed = self._connection_owed, 0
            self._give_credit(owed, None)
        self._body.pump()
        self._flush()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._body.socket_full = True

    def resume_writing(self) -> None:
        self._body.socket_full = False
        self._body.pump()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._finishing is not None:
            self._finishing.cancel()
        self._body.drop()
        said = self._frames.goaway
        if said is not None and said.error_code:
            self._gone = f"the gateway ended the connection with GOAWAY({_name(said.error_code)})"
        elif self._frames.speaks_tls:
            self._gone = SPEAKS_TLS
        elif not self._frames.begun:
            self._gone = "the connection ended before the server sent any HTTP/2"
        else:
            self._gone = "the connection to the gateway ended before the stream did"
        self._ended_by(self._gone, passing=not self._frames.speaks_tls)
        self._deliver()
        if self._owner is not None:
            self._owner.lost()

    # --- Receiving -------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        match event:
            case DataReceived(data=data):
                size = event.flow_controlled_length or 0
                self._connection_owed += size
                self._owed_credit += size
                self._data_received(data or b"")
            case ResponseReceived(headers=headers):
                for name, value in headers or ():
                    self._headers[_text(name)] = _text(value)
                self._head_received()
            case StreamEnded():
                self._response_ended()
            case StreamReset(error_code=code):
                self._ended_by(f"the gateway reset the stream with {_name(code)}")
            case PingAckReceived(ping_data=payload):
                if payload == _LEAVING and self._transport is not None:
                    self._leave(self._transport)
                elif self._owner is not None:
                    self._owner.pong_received(payload or b"")
            case _:
                pass  # windows and settings: newly allowed data is sent after the read

    def _head_received(self) -> None:
        status = self._headers.get(":status", "")
        content_type = media_type_of(self._headers.get("content-type", ""))
        if status == "200" and content_type == CONTENT_TYPE:
            self.request_id = self._headers.get("x-amzn-requestid", "")
            self.input_end = self._headers.get(INPUT_END_HEADER, "")
            if not self._head.done():
                self._head.set_result(None)
        elif status.isascii() and status.isdigit():
            self._status = int(status)
        else:
            self._ended_by("the gateway's answer has no status", passing=False)

    def _data_received(self, data: bytes) -> None:
        if self._status:
            self._refusal += data[: limits.ERROR_BODY_BYTES - len(self._refusal)]
            if len(self._refusal) == limits.ERROR_BODY_BYTES:
                self._response_ended()
        elif not self._over:
            self._events.feed(data)

    def _response_ended(self) -> None:
        if self._status:
            error = refused(self._status, self._headers, bytes(self._refusal))
            self._fail(error)
        elif self._events.mid_event:  # clause 2.3-2
            self._ended_by("the gateway ended the stream in the middle of an event")
        elif not self._over:
            self._over = True
            self._body.drop()

    def _ended_by(self, why: str, *, passing: bool = True) -> None:
        """Note that the stream is over for ``why``, unless it has ended before.

        Before the stream is granted, ``passing`` says whether another attempt may succeed.
        """
        if not self._head.done():
            if self._status:
                self._fail(refused(self._status, self._headers, bytes(self._refusal)))
            self._fail(Unreachable(why, passing=passing))
        if not self._over:
            self._over = True
            self._outcome = ConnectionLost(why)
            self._body.drop()

    def _broken(self, why: str) -> None:
        self._ended_by(why, passing=False)
        self.abort()

    def _fail(self, error: Exception) -> None:
        if not self._head.done():
            self._head.set_exception(error)
            self._head.exception()  # the waiting task may be gone; avoid asyncio's log line

    def _deliver(self) -> None:
        """Deliver the events that have come, as long as the owner reads; then give credit.

        Once the stream is over, the owner gets all the rest, at most a window. A task that waits to
        send must learn of the end, even if no task reads.
        """
        owner = self._owner
        if owner is None or self._delivering or self._finishing is not None:
            return
        self._delivering = True
        try:
            while (self._reading or self._over) and (
                event := self._events.next_event()
            ) is not None:
                owner.event_received(event)
        except EventFault as fault:
            owner.broken(f"the gateway sent something that is not an event: {fault.message}")
        finally:
            self._delivering = False
        if self._over:
            if not self._outcome_told:
                self._outcome_told = True
                owner.ended(self._outcome)
        elif self._reading and self._owed_credit >= _CREDIT_STEP:
            owed, self._owed_credit = self._owed_credit, 0
            self._give_credit(owed, _STREAM)

    def _give_credit(self, size: int, stream_id: int | None) -> None:
        if self._transport is not None:
            try:
                self._h2.increment_flow_control_window(size, stream_id)
            except (ProtocolError, KeyError):
                return  # h2 has closed the stream; the event that says so follows

    # --- Sending ---------------------------------------------------------------------------------

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and self._transport is not None and not self._transport.is_closing():
            self._written += len(data)
            self._transport.write(data)
            if self._unsent() > limits.WRITE_HIGH_WATER + HTTP2_MAX_UNSENT:
                self._broken("the gateway does not read the answers to its own frames")

    def _unsent(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def _leave(self, transport: asyncio.Transport) -> None:
        """Send GOAWAY, and end the TCP connection once everything is flushed."""
        if not transport.is_closing():
            transport.write(goaway(0, ErrorCodes.NO_ERROR))
            transport.close()


def _library() -> H2Connection:
    connection = H2Connection(H2Configuration(client_side=True, header_encoding=None))
    connection.local_settings = Settings(client=True, initial_values=dict(_SETTINGS))
    connection.initiate_connection()
    connection.increment_flow_control_window(HTTP2_CONNECTION_WINDOW - HTTP2_OPENING_WINDOW)
    return connection


def _name(code: ErrorCodes | int | None) -> str:
    try:
        return ErrorCodes(code or 0).name
    except ValueError:
        return f"error {code}"


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")
