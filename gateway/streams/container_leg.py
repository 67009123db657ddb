"""The leg toward the container: one WebSocket connection, dialled and upgraded by us."""

from __future__ import annotations

from gateway import dialling
from gateway.dialling import Address, Upgraded
from gateway.streams.clock import Clock
from gateway.streams.ends import Ending
from gateway.streams.legs import ContainerLeg
from gateway.streams.policy import StreamPolicy
from gateway.streams.session import Session
from gateway.streams.watch import PingWatch
from protocol.closing import Close
from protocol.connection import FrameConnection, Side
from protocol.errors import ModelError
from protocol.frame_codec import FrameError
from protocol.frames import Frame, FramesToParts, PartsToFrames
from protocol.handshake import ClientHandshake, HandshakeRefused
from protocol.parts import PayloadPart

#: Where a container takes streams, unless the client names another path (clause 1.6-1).
DEFAULT_PATH = "/invocations-bidirectional-stream"


async def dial(address: Address, target: str, request_id: str, policy: StreamPolicy) -> Upgraded:
    """Connect to a container and upgrade (clause 4-6).

    Args:
        address: the container's; its origin is nothing that a client can influence.
        target: path and query.
        request_id: goes along as ``X-Amzn-SageMaker-Request-Id``, alone of all headers (1.6-1).
        policy: times of the endpoint.

    Raises:
        ModelError: with the container's own status and body, or status 0 and what happened.
    """
    handshake = ClientHandshake(str(address), target, [("X-Amzn-SageMaker-Request-Id", request_id)])
    try:
        return await dialling.dial(
            address,
            handshake,
            connect_timeout=policy.connect_timeout,
            handshake_timeout=policy.handshake_timeout,
        )
    except HandshakeRefused as refusal:
        body = refusal.body.decode("utf-8", "replace")
        message = f"the container refused the stream with status {refusal.status}"
        raise ModelError(message, refusal.status, body) from None
    except dialling.Unreachable as error:
        raise ModelError(f"no stream with the container: {error}") from None


class WebSocketContainerLeg(ContainerLeg):
    """Parts become frames and frames parts, one for one (clauses 1.2, 1.3)."""

    def __init__(self, upgraded: Upgraded, policy: StreamPolicy, clock: Clock) -> None:
        self._upgraded = upgraded
        self._policy = policy
        self._clock = clock
        self._to_frames = PartsToFrames()
        self._to_parts = FramesToParts()
        self._connection = FrameConnection(
            self,
            Side.CLIENT,
            max_payload=policy.max_part,
            high_water=policy.high_water,
            low_water=policy.low_water,
            call_later=clock.call_later,
        )
        self._session: Session
        self._pings: PingWatch

    # --- Leg -------------------------------------------------------------------------------------

    def start(self, session: Session) -> None:
        self._session = session
        self._pings = PingWatch(
            self._connection,
            self._clock,
            interval=self._policy.ping_interval,
            unanswered_limit=self._policy.pings_unanswered,
            on_lost=session.container_unresponsive,
            stall=session.container_stall,
        )
        self.pause_reading()
        self._connection.take_over(self._upgraded.transport, self._upgraded.accepted.trailing)

    def send(self, part: PayloadPart) -> None:
        self._connection.send(self._to_frames.frame(part))

    def close(self, close: Close) -> None:
        self._pings.stop()  # no frame follows a Close; its own timeout watches from here on
        self._connection.close(close)

    def finish(self, ending: Ending) -> None:
        self._pings.stop()
        self._connection.finish(ending.container_close)

    def pause_reading(self) -> None:
        self._connection.pause_reading()
        self._pings.reading_paused()

    def resume_reading(self) -> None:
        self._pings.reading_resumed()
        self._connection.resume_reading()

    def buffered_bytes(self) -> int:
        return self._connection.buffered_bytes

    def taken_bytes(self) -> int:
        return self._connection.taken_bytes

    @property
    def mid_message(self) -> bool:
        return self._to_frames.mid_message

    # --- FrameHandler ----------------------------------------------------------------------------

    def frame_received(self, frame: Frame) -> None:
        try:
            self._session.part_from_container(self._to_parts.part(frame))
        except Exception:  # ours, whatever it is: the one stream ends with its cause named
            self._session.failed()

    def pong_received(self, payload: bytes) -> None:
        self._pings.pong_received(payload)

    def close_received(self, close: Close) -> None:
        self._session.container_closed(close)

    def peer_failed(self, error: FrameError) -> None:
        self._session.container_failed(error)

    def connection_lost(self, error: Exception | None) -> None:
        self._pings.stop()
        self._session.container_lost()
        self._session.leg_closed()

    def writing_paused(self) -> None:
        self._session.container_blocked()

    def writing_resumed(self) -> None:
        self._session.container_drained()
