"""The leg toward a WebSocket client: three subprotocols (section 3).

``payloadpart.v1.msgpack`` and ``payloadpart.v1.json`` carry events in messages. In
``payloadpart.v1.raw``, the client's own frames are the parts.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.streams.ends import Cause, ClientFault, Ending
from partway.gateway.streams.legs import ClientLeg
from partway.gateway.streams.stepwise_work import StepwiseWork
from partway.gateway.streams.websocket_leg import WebSocketLeg
from partway.gateway.timing.clock import Clock
from partway.protocol.connections.peer_watch import PingWatch
from partway.protocol.connections.websocket import FrameConnection, Side
from partway.protocol.limits import JSON_AT_ONCE, envelope_bytes
from partway.protocol.parts import InputEnd, ModelStreamError, PayloadPart, StreamError, StreamEvent
from partway.protocol.websocket.close_codes import (
    GATEWAY_FAILED,
    GOING_AWAY,
    INVALID_DATA,
    MODEL_FAILED,
    NORMAL,
    TOO_BIG,
    UNSUPPORTED_DATA,
    Close,
    close_for,
)
from partway.protocol.websocket.envelopes import (
    Envelope,
    EnvelopeError,
    JsonEnvelope,
    MessageAssembler,
    MessageTooBig,
    MsgpackEnvelope,
)
from partway.protocol.websocket.frame_decoder import FrameError
from partway.protocol.websocket.frames import Frame, FramesToParts, Opcode, PartsToFrames

RAW = "payloadpart.v1.raw"
MSGPACK = "payloadpart.v1.msgpack"
JSON = "payloadpart.v1.json"

#: Hands the client's connection over, once the 101 has been written.
Takeover = Callable[[FrameConnection], None]


class WebSocketClientLeg(WebSocketLeg, ClientLeg):
    """The common part of the three subprotocols' legs.

    Args:
        max_payload: most bytes of a client's frame.
    """

    def __init__(
        self, takeover: Takeover, policy: StreamPolicy, clock: Clock, max_payload: int
    ) -> None:
        super().__init__(Side.SERVER, policy, clock, max_payload)
        self._takeover = takeover

    # --- Leg -------------------------------------------------------------------------------------

    def _watch(self) -> PingWatch:  # clause 1.4-4
        return PingWatch(
            self._connection,
            self._clock,
            interval=self._policy.client_ping_interval,
            unanswered_limit=self._policy.client_pings_unanswered,
            on_lost=lambda: self._session.client_gone(Cause.CLIENT_UNRESPONSIVE),
            stall=self._session.client_stall,
        )

    def _take_over(self) -> None:
        self._takeover(self._connection)

    def finish(self, ending: Ending) -> None:
        self._pings.stop()
        self._connection.finish(self._last_words(ending))

    @abstractmethod
    def _last_words(self, ending: Ending) -> Close:
        """Send the last event, if the subprotocol has one; return the Close to follow it."""

    # --- FrameHandler ----------------------------------------------------------------------------

    def close_received(self, close: Close) -> None:
        if close.code in (None, NORMAL):  # clauses 3-1, 3-2
            self._session.client_finished()
        else:
            self._session.client_gone(Cause.CLIENT_CANCELLED)

    def peer_failed(self, error: FrameError) -> None:
        fault = ClientFault(
            f"the client's WebSocket: {error.reason}",
            oversize=error.code == TOO_BIG,
            client_close=error.code,
        )
        self._session.client_failed(fault)

    def _lost(self) -> None:
        self._session.client_gone(Cause.CLIENT_LOST)

    def writing_paused(self) -> None:
        self._session.client_blocked()

    def writing_resumed(self) -> None:
        self._session.client_drained()


class RawClientLeg(WebSocketClientLeg):
    """The client's frames are the parts, and the container's frames come back (clause 3-2)."""

    def __init__(self, takeover: Takeover, policy: StreamPolicy, clock: Clock) -> None:
        super().__init__(takeover, policy, clock, policy.max_part)
        self._to_frames = PartsToFrames()
        self._to_parts = FramesToParts()

    def send(self, part: PayloadPart) -> None:
        self._connection.send(self._to_frames.frame(part))

    def _receive(self, frame: Frame) -> None:
        self._session.part_from_client(self._to_parts.part(frame))

    def _last_words(self, ending: Ending) -> Close:
        own = ending.model_close
        if own is not None and own.code in (None, NORMAL, GOING_AWAY):
            return own  # passes through, whatever normal_close says for others
        if ending.error is None:
            return Close(NORMAL)
        if ending.client_close is not None:
            return Close(ending.client_close, ending.error.message)
        return close_for(ending.error)


class EnvelopeClientLeg(WebSocketClientLeg):
    """Each of the client's messages is one event (clause 3-1)."""

    def __init__(
        self, takeover: Takeover, policy: StreamPolicy, clock: Clock, envelope: Envelope
    ) -> None:
        max_message = envelope_bytes(policy.max_part)
        super().__init__(takeover, policy, clock, max_message)
        self._envelope = envelope
        self._opcode = Opcode.TEXT if envelope.text else Opcode.BINARY
        self._assembler = MessageAssembler(max_message)

    def send(self, part: PayloadPart) -> None:
        self._connection.send(Frame(self._opcode, self._envelope.encode(part)))

    def buffered_bytes(self) -> int:
        return self._connection.buffered_bytes + self._assembler.held_bytes

    def _receive(self, frame: Frame) -> None:
        opcode, payload, fin = frame
        if opcode is not Opcode.CONTINUATION and opcode is not self._opcode:
            wanted = "text" if self._envelope.text else "binary"
            self._fail(f"messages of this subprotocol must be {wanted}", UNSUPPORTED_DATA)
            return
        try:
            message = self._assembler.add(payload, fin)
        except MessageTooBig as error:
            self._fail(str(error), TOO_BIG)
            return
        if message is not None:
            self._event(message)

    def _event(self, message: bytes) -> None:
        try:
            event = self._envelope.decode(message)
        except EnvelopeError as error:
            self._fail(f"bad envelope: {error}", INVALID_DATA)
        else:
            self._take(event)

    def _take(self, event: StreamEvent) -> None:
        match event:
            case PayloadPart(payload):
                if len(payload) > self._policy.max_part:
                    self._fail(f"a part is over {self._policy.max_part} bytes", TOO_BIG)
                else:
                    self._session.part_from_client(event)
            case InputEnd():
                self._session.input_ended()
            case _:
                self._fail(
                    "the client sent an error event, which only the gateway may send", INVALID_DATA
                )

    def _fail(self, message: str, close_code: int) -> None:
        self._assembler.drop()
        fault = ClientFault(message, oversize=close_code == TOO_BIG, client_close=close_code)
        self._session.client_failed(fault)

    def _last_words(self, ending: Ending) -> Close:
        if ending.error is None:
            return Close(NORMAL)
        message = self._envelope.encode(ending.error)
        self._connection.send(Frame(self._opcode, message))
        return Close(ending.client_close or _failure_code(ending.error))


class JsonClientLeg(EnvelopeClientLeg):
    """Messages in JSON; large ones are coded in turns with other streams.

    Meanwhile nothing else is read from the client or the container, so the order is kept.
    """

    def __init__(self, takeover: Takeover, policy: StreamPolicy, clock: Clock) -> None:
        super().__init__(takeover, policy, clock, JsonEnvelope)
        self._decoding = StepwiseWork(clock, lambda: self._session.failed())
        self._encoding = StepwiseWork(clock, lambda: self._session.failed())
        self._may_read = False  # as far as the session allows
        self._writable = True
        self._ending: Ending | None = None  # waits until a message has been sent whole
        self._encoded = self._decoded = 0  # bytes that are being coded

    # --- Down ------------------------------------------------------------------------------------

    def send(self, part: PayloadPart) -> None:
        if len(part.payload) <= JSON_AT_ONCE:
            super().send(part)
            return
        self._encoded = len(part.payload)
        self._session.client_blocked()
        self._encoding.begin(self._encode(part))

    def _encode(self, part: PayloadPart) -> Iterator[None]:
        """Send a part as one message in fragments (RFC 6455 §5.4)."""
        opcode = self._opcode
        for piece, last in JsonEnvelope.pieces(part):
            self._connection.send(Frame(opcode, piece, last))
            opcode = Opcode.CONTINUATION
            yield
        self._encoding.stop()
        if self._ending is not None:
            super().finish(self._ending)
        elif self._writable:
            self._session.client_drained()

    def writing_paused(self) -> None:
        self._writable = False
        if not self._encoding.under_way:
            super().writing_paused()
        elif self._ending is None:
            self._encoding.hold()

    def writing_resumed(self) -> None:
        self._writable = True
        if self._encoding.under_way:
            self._encoding.go_on()
        else:
            super().writing_resumed()

    def finish(self, ending: Ending) -> None:
        self._decoding.stop()
        if self._encoding.under_way:
            self._pings.stop()
            self._ending = ending
            self._connection.pause_reading()
            self._encoding.go_on()  # even if the client takes nothing: it is at most one part
        else:
            super().finish(ending)

    # --- Up --------------------------------------------------------------------------------------

    def pause_reading(self) -> None:
        self._may_read = False
        super().pause_reading()

    def resume_reading(self) -> None:
        self._may_read = True
        if not self._decoding.under_way:
            super().resume_reading()
        else:
            self._pings.reading_resumed()

    def _event(self, message: bytes) -> None:
        if len(message) <= JSON_AT_ONCE:
            super()._event(message)
            return
        self._decoded = len(message)
        self._connection.pause_reading()
        self._decoding.begin(self._decode(message))

    def _decode(self, message: bytes) -> Iterator[None]:
        try:
            event = yield from JsonEnvelope.decoding(message)
        except EnvelopeError as error:
            self._fail(f"bad envelope: {error}", INVALID_DATA)
            return
        self._decoding.stop()
        self._take(event)
        if self._may_read:
            self._connection.resume_reading()

    # --- Either way ------------------------------------------------------------------------------

    def buffered_bytes(self) -> int:
        held = super().buffered_bytes()
        held += self._encoded if self._encoding.under_way else 0
        return held + (self._decoded if self._decoding.under_way else 0)

    def connection_lost(self, error: Exception | None) -> None:
        self._decoding.stop()
        self._encoding.stop()
        super().connection_lost(error)


def _failure_code(error: StreamError) -> int:
    return MODEL_FAILED if isinstance(error, ModelStreamError) else GATEWAY_FAILED


#: Subprotocols by name; the client's order decides, not this one.
LEGS: dict[str, Callable[[Takeover, StreamPolicy, Clock], WebSocketClientLeg]] = {
    RAW: RawClientLeg,
    MSGPACK: lambda takeover, policy, clock: EnvelopeClientLeg(
        takeover, policy, clock, MsgpackEnvelope
    ),
    JSON: JsonClientLeg,
}
