"""The common part of both legs on WebSocket connections: the connection and its pings."""

from __future__ import annotations

from abc import abstractmethod

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.streams.legs import Leg, LegOwner
from partway.gateway.timing.clock import Clock
from partway.protocol.connections.peer_watch import PingWatch
from partway.protocol.connections.websocket import FrameConnection, FrameHandler, Side
from partway.protocol.websocket.frames import Frame


class WebSocketLeg(FrameHandler, Leg):
    """One side of a stream on a FrameConnection, which the leg owns.

    Args:
        side: which side of the connection the gateway is.
        max_payload: most bytes of a frame's payload.
    """

    def __init__(self, side: Side, policy: StreamPolicy, clock: Clock, max_payload: int) -> None:
        self._policy = policy
        self._clock = clock
        self._connection = FrameConnection(
            self,
            side,
            max_payload=max_payload,
            high_water=policy.high_water,
            low_water=policy.low_water,
            call_later=clock.call_later,
        )
        self._session: LegOwner
        self._pings: PingWatch

    # --- Leg -------------------------------------------------------------------------------------

    def start(self, session: LegOwner) -> None:
        self._session = session
        self._pings = self._watch()
        self.pause_reading()
        self._take_over()

    @abstractmethod
    def _watch(self) -> PingWatch:
        """Make the watch that pings the peer."""

    @abstractmethod
    def _take_over(self) -> None:
        """Give the connection its transport."""

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

    # --- FrameHandler ----------------------------------------------------------------------------

    def frame_received(self, frame: Frame) -> None:
        try:
            self._receive(frame)
        except Exception:  # a fault of ours ends only this stream, with its cause named
            self._session.failed()

    @abstractmethod
    def _receive(self, frame: Frame) -> None:
        """Take a data frame in."""

    def pong_received(self, payload: bytes) -> None:
        self._pings.pong_received(payload)

    def connection_lost(self, error: Exception | None) -> None:
        self._pings.stop()
        self._lost()
        self._session.leg_closed()

    @abstractmethod
    def _lost(self) -> None:
        """Tell the session, which may have ended already, that the connection is lost."""
