"""One bidirectional stream: the two legs, what goes between them, and its one end.

Everything here is a callback from a leg or a timer; nothing awaits. A session owns its legs and
its timers from its making until :meth:`Session.closed`.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from partway.gateway.clock import Clock, Timer
from partway.gateway.streams import ends
from partway.gateway.streams.ends import Cause, ClientFault, Ending
from partway.gateway.streams.legs import ClientLeg, ContainerLeg
from partway.gateway.streams.policy import StreamPolicy
from partway.gateway.watch import StallWatch, Wait
from partway.log_lines import LogLine
from partway.protocol.closing import Close
from partway.protocol.frame_codec import FrameError
from partway.protocol.parts import PayloadPart

log = logging.getLogger("partway.stream")


class State(enum.Enum):
    """How far a stream has come.

    ::

        RELAYING ──input ends, "close"──▶ CLOSING ──Close, timeout, …──▶ ENDED
            │                               ▲                              ▲
            ├───input ends, "drain"──▶ DRAINING ──(silence)                │
            └──────────────── every other end ─────────────────────────────┘
    """

    #: Both directions are open.
    RELAYING = "relaying"
    #: The client's input has ended; its container is still listened to (``input_end = "drain"``).
    DRAINING = "draining"
    #: The container has our Close(1000); its frames go on until its own.
    CLOSING = "closing"
    #: The cause is named; the legs are saying goodbye.
    ENDED = "ended"


# Looking a member up on an enum class costs as much as the rest of a part's way through here.
_RELAYING = State.RELAYING
_DRAINING = State.DRAINING
_ENDED = State.ENDED


@dataclass(slots=True)
class Counts:
    """Parts and payload bytes of one direction."""

    parts: int = 0
    bytes: int = 0


class Session:
    """One stream between a client and a container.

    Args:
        endpoint: the endpoint's name, for logs and metrics.
        request_id: the stream's id.
        client: the leg toward the client.
        container: the leg toward the container.
        policy: settings of the endpoint's streams.
        clock: the stream's clock.
        on_end: called once, with the cause named and the counts final.
    """

    def __init__(
        self,
        *,
        endpoint: str,
        request_id: str,
        client: ClientLeg,
        container: ContainerLeg,
        policy: StreamPolicy,
        clock: Clock,
        on_end: Callable[[Session], None],
    ) -> None:
        self.endpoint = endpoint
        self.request_id = request_id
        self.client = client
        self.container = container
        self.policy = policy
        self.state = State.RELAYING
        self.ending: Ending | None = None
        self.from_client = Counts()
        self.from_container = Counts()
        self.started_at = clock.time()
        self.first_part_at: float | None = None
        self.ended_at: float | None = None
        self._clock = clock
        self._on_end = on_end
        self._client_present = True
        self._client_blocked = False
        self._taken_at_close = 0
        self._legs_open = 2
        self._closed: asyncio.Future[None] | None = None
        self._end_timer: Timer | None = None
        self._lifetime: Timer | None = None
        self.client_stall = StallWatch(
            client.taken_bytes, clock, policy.stall_timeout, self._client_stalled
        )
        self.container_stall = StallWatch(
            container.taken_bytes, clock, policy.stall_timeout, self._container_stalled
        )

    def start(self) -> None:
        """Open both legs. Parts may arrive before this returns, and so may the end."""
        self._lifetime = self._clock.call_later(self.policy.lifetime, self._lifetime_over)
        self.client.start(self)
        self.container.start(self)
        # Both can be sent to before either is heard.
        self.client.resume_reading()
        self.container.resume_reading()

    async def closed(self) -> None:
        """Wait until the stream has ended and both legs are gone; bounded by their lingering."""
        if self._legs_open:
            self._closed = asyncio.get_running_loop().create_future()
            await self._closed

    @property
    def buffered_bytes(self) -> int:
        """Bytes of the stream held in this process, both directions (rule: bounded)."""
        return self.client.buffered_bytes() + self.container.buffered_bytes()

    # --- From the client's leg -------------------------------------------------------------------

    def part_from_client(self, part: PayloadPart) -> None:
        """Take a part from the client up to the container (clause 1.2)."""
        if self.state is not _RELAYING:
            if self.state is not _ENDED:
                self.client_failed(ClientFault("a part came after the end of input"))
            return
        counts = self.from_client
        counts.parts += 1
        counts.bytes += len(part.payload)
        self.container.send(part)

    def input_ended(self) -> None:
        """The client has said everything (clauses 1.5-11, 1.5-12)."""
        if self.state is not State.RELAYING:
            return
        if self.policy.input_end == "drain":
            self.state = State.DRAINING
            self._arm(self.policy.drain_timeout, self._close_container)
        else:
            self._close_container()

    def client_finished(self) -> None:
        """The client ended its input and has left in good order (clause 3-2)."""
        if self.state is State.ENDED:
            return
        self._client_present = False
        if self.state is not State.CLOSING:
            self._close_container()
        # Nothing is held back for one who left. Last, since it may bring the container's Close.
        self.client_drained()

    def client_gone(self, cause: Cause) -> None:
        """The client left: cancelled, cut or unresponsive (row 1.5-9)."""
        self._end(ends.client_gone(cause))

    def client_failed(self, fault: ClientFault) -> None:
        """The client did something wrong; nothing after it is relayed (row 1.5-10)."""
        self._end(ends.client_fault(fault))

    def client_blocked(self) -> None:
        """The client takes less than the container gives: stop reading the container."""
        if self.state is not State.ENDED and self._client_present:
            self._client_blocked = True
            self._disarm()
            self.container.pause_reading()
            self.client_stall.waiting(Wait.HIGH_WATER)

    def client_drained(self) -> None:
        """The client's leg is below its low-water mark."""
        self._client_blocked = False
        self.client_stall.moving(Wait.HIGH_WATER)
        if self.state is State.ENDED:
            return
        if self.state is State.CLOSING:
            self._await_close()
        elif self.state is State.DRAINING:
            self._arm(self.policy.drain_timeout, self._close_container)
        self.container.resume_reading()

    # --- From the container's leg ----------------------------------------------------------------

    def part_from_container(self, part: PayloadPart) -> None:
        """Take a part from the container down to the client (clause 1.3)."""
        state = self.state
        if state is _ENDED:
            return
        if self.first_part_at is None:
            self.first_part_at = self._clock.time()
        counts = self.from_container
        counts.parts += 1
        counts.bytes += len(part.payload)
        if state is _DRAINING:
            self._arm(self.policy.drain_timeout, self._close_container)
        if self._client_present:
            self.client.send(part)

    def container_closed(self, close: Close) -> None:
        """The container's Close, already answered (clause 1.5)."""
        if self.state is State.CLOSING:
            if not self._client_present:
                self._end(ends.client_finished())
            else:
                cut = self.container.mid_message
                self._end(ends.container_answered(close, input_cut_message=cut))
        elif self.state is State.DRAINING:
            self._end(ends.container_answered(close, input_cut_message=False))
        else:
            self._end(ends.container_closed(close, self.policy.normal_close))

    def container_failed(self, error: FrameError) -> None:
        """The container broke RFC 6455 (rows 1.5-4 to 1.5-6)."""
        self._end(ends.container_broke_protocol(error))

    def container_lost(self) -> None:
        """The container's connection ended without Close (row 1.5-3)."""
        self._end(ends.container_lost())

    def container_unresponsive(self) -> None:
        """The container's liveness is lost (row 1.5-8)."""
        self._end(ends.container_unresponsive(self.policy.pings_unanswered))

    def container_blocked(self) -> None:
        """The container takes less than the client gives: stop reading the client."""
        if self.state is not State.ENDED:
            self.client.pause_reading()
            self.container_stall.waiting(Wait.HIGH_WATER)

    def container_drained(self) -> None:
        """The container's leg is below its low-water mark."""
        self.container_stall.moving(Wait.HIGH_WATER)
        if self.state is not State.ENDED:
            self.client.resume_reading()

    # --- From the gateway ------------------------------------------------------------------------

    def drain(self) -> None:
        """The gateway stops (row 1.5-9)."""
        self._end(ends.gateway_draining())

    def failed(self) -> None:
        """The gateway's own code raised; called inside the ``except`` for it (row 1.5-8)."""
        fault = sys.exception()
        line = LogLine("stream failed", endpoint=self.endpoint, request_id=self.request_id)
        log.error(line, exc_info=fault)
        self._end(ends.gateway_fault())

    def leg_closed(self) -> None:
        """One leg's transport is gone, after the end."""
        self._legs_open -= 1
        if not self._legs_open and self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    # --- Timers ----------------------------------------------------------------------------------

    def _close_container(self) -> None:
        """Say Close(1000) and give the container its time to answer (clause 1.5-12)."""
        self.state = State.CLOSING
        self.container.close(ends.INPUT_ENDED)
        if self.state is State.CLOSING:  # a Close that cannot be written may have ended it
            self._await_close()

    def _await_close(self) -> None:
        """Time the answer to a Close, which queues: its time begins when the container has it."""
        self._taken_at_close = self.container.taken_bytes()
        self._arm(self.policy.close_timeout, self._close_timed_out)

    def _close_timed_out(self) -> None:
        if self.container.taken_bytes() > self._taken_at_close:
            # Nothing is sent after a Close: it, or what is before it, is still on its way out.
            self._await_close()
        elif self._client_present:
            self._end(ends.close_timeout(self.policy.close_timeout))
        else:
            self._end(ends.client_finished())

    def _lifetime_over(self) -> None:  # clause 1.4-5
        self._end(ends.lifetime_over(self.policy.lifetime))

    def _client_stalled(self) -> None:
        self._end(ends.client_stalled(self.policy.stall_timeout))

    def _container_stalled(self) -> None:
        self._end(ends.container_stalled(self.policy.stall_timeout))

    def _arm(self, delay: float, callback: Callable[[], None]) -> None:
        """Give the container its time anew, unless it is not read: its answer would wait unseen."""
        self._disarm()
        if not self._client_blocked:
            self._end_timer = self._clock.call_later(delay, callback)

    def _disarm(self) -> None:
        if self._end_timer is not None:
            self._end_timer.cancel()
            self._end_timer = None

    # --- The one end -----------------------------------------------------------------------------

    def _end(self, ending: Ending) -> None:
        """End the stream: every end comes through here, the first one counts (clause 1.5-13)."""
        if self.state is State.ENDED:
            return
        self.state = State.ENDED
        self.ending = ending
        self.ended_at = self._clock.time()
        self._disarm()
        if self._lifetime is not None:
            self._lifetime.cancel()
        self.client_stall.stop()
        self.container_stall.stop()
        with ExitStack() as whatever_raises:
            whatever_raises.callback(self._on_end, self)
            whatever_raises.callback(self.client.finish, ending)
            self.container.finish(ending)
