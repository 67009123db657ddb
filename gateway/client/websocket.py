"""Streams over WebSocket: ``payloadpart.v1.msgpack`` (clause 3-1)."""

from __future__ import annotations

import time

from partway.gateway.client.errors import (
    ConnectionLost,
    GatewayUnreachable,
    refused,
    unreachable,
)
from partway.gateway.client.request import StreamRequest
from partway.gateway.client.wire import Wire, WireOwner
from partway.gateway.network.dialling import Unreachable, dial
from partway.protocol import limits
from partway.protocol.connections.upgrading import Upgraded
from partway.protocol.connections.websocket import FrameConnection, Side
from partway.protocol.parts import InputEnd, PayloadPart, StreamEvent
from partway.protocol.websocket.close_codes import GOING_AWAY, NORMAL, Close
from partway.protocol.websocket.envelopes import (
    EnvelopeError,
    MessageAssembler,
    MessageTooBig,
    MsgpackEnvelope,
)
from partway.protocol.websocket.frame_decoder import FrameError
from partway.protocol.websocket.frames import Frame, Opcode
from partway.protocol.websocket.handshake import INPUT_END_HEADER, ClientHandshake, HandshakeRefused

_SUBPROTOCOL = "payloadpart.v1.msgpack"


async def open_websocket(
    request: StreamRequest, *, connect_timeout: float, open_timeout: float
) -> Wire:
    """Connect to the gateway, and upgrade the connection to a WebSocket.

    Raises:
        GatewayUnreachable: no gateway answers at the request's URL.
        StreamRefused: the gateway refused the stream.
        ValueError: the CA's file holds no certificate, or cannot be read.
    """
    tls = request.context("http/1.1")
    target, headers = request.upgrade(time.time())
    handshake = ClientHandshake(
        request.authority,
        target,
        headers,
        subprotocols=[_SUBPROTOCOL],
        refusal_bytes=limits.ERROR_BODY_BYTES,
    )
    try:
        upgraded = await dial(
            request.address,
            handshake,
            connect_timeout=connect_timeout,
            handshake_timeout=open_timeout,
            tls=tls,
        )
    except HandshakeRefused as refusal:
        raise refused(refusal.status, refusal.headers, refusal.body) from None
    except Unreachable as error:
        raise unreachable(request.url, error) from None
    if upgraded.accepted.subprotocol != _SUBPROTOCOL:
        upgraded.transport.abort()
        raise GatewayUnreachable(
            f"cannot open a stream to {request.url}: the server accepts WebSockets, but not the "
            f"subprotocol {_SUBPROTOCOL}; use the URL of a Partway gateway",
            reconnect=False,
        )
    return WebSocketWire(upgraded)


class WebSocketWire(Wire):
    """A WebSocket whose messages carry events."""

    pongs_wait = True

    def __init__(self, upgraded: Upgraded) -> None:
        self.request_id = upgraded.accepted.headers.get("x-amzn-requestid", "")
        self.input_end = upgraded.accepted.headers.get(INPUT_END_HEADER, "")
        self._upgraded = upgraded
        self._connection = FrameConnection(self, Side.CLIENT, max_payload=limits.MAX_ENVELOPE_BYTES)
        self._assembler = MessageAssembler(limits.MAX_ENVELOPE_BYTES)
        self._owner: WireOwner

    # --- Wire ------------------------------------------------------------------------------------

    def start(self, owner: WireOwner) -> None:
        self._owner = owner
        self._connection.take_over(self._upgraded.transport, self._upgraded.accepted.trailing)

    def send(self, part: PayloadPart) -> None:
        self._send(part)

    def end_input(self) -> None:
        self._send(InputEnd())

    def _send(self, event: StreamEvent) -> None:
        self._connection.send(Frame(Opcode.BINARY, MsgpackEnvelope.encode(event)))

    def pause_reading(self) -> None:
        self._connection.pause_reading()

    def resume_reading(self) -> None:
        self._connection.resume_reading()

    @property
    def reading(self) -> bool:
        return self._connection.reading

    @property
    def buffered_bytes(self) -> int:
        return self._connection.buffered_bytes

    def ping(self, payload: bytes) -> int:
        return self._connection.ping(payload)

    def flushed(self, position: int) -> bool:
        return self._connection.flushed(position)

    def finish(self, *, cancel: bool) -> None:
        self._connection.finish(Close(GOING_AWAY if cancel else NORMAL))

    def abort(self) -> None:
        self._connection.abort()

    # --- FrameHandler ----------------------------------------------------------------------------

    def frame_received(self, frame: Frame) -> None:
        """Gather a message's frames; a whole message is an event for the owner."""
        try:
            message = self._assembler.add(frame.payload, frame.fin)
        except MessageTooBig as error:
            self._owner.broken(f"from the gateway: {error}")
            return
        if message is None:
            return
        try:
            event = MsgpackEnvelope.decode(message)
        except EnvelopeError as error:
            self._owner.broken(f"the gateway sent something that is not an event: {error}")
            return
        self._owner.event_received(event)

    def pong_received(self, payload: bytes) -> None:
        self._owner.pong_received(payload)

    def close_received(self, close: Close) -> None:
        """Tell the owner that the stream is over; an error, if any, came as an event before."""
        clean = close.code == NORMAL
        said = f"the gateway closed with {close.code} {close.reason}"
        self._owner.ended(None if clean else ConnectionLost(said))

    def peer_failed(self, error: FrameError) -> None:
        """Tell the owner that the gateway, or a proxy before it, broke RFC 6455."""
        self._owner.ended(ConnectionLost(f"bad frames from the gateway: {error.reason}"))

    def connection_lost(self, error: Exception | None) -> None:
        self._owner.ended(ConnectionLost("the connection to the gateway ended without a Close"))
        self._owner.lost()

    def writing_paused(self) -> None:
        self._owner.writing_paused()

    def writing_resumed(self) -> None:
        self._owner.writing_resumed()
