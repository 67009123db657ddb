"""The session: one bidirectional stream with its two legs, and its one end.

Everything here is a callback from a leg or a timer; nothing awaits. A session owns its legs and its
timers from its making until :meth:`Session.closed`. The table in ``states.py`` decides what follows
each event; the methods here carry it out.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.streams import ends
from partway.gateway.streams.container_silence import SilenceWatch
from partway.gateway.streams.ends import Cause, ClientFault, Ending
from partway.gateway.streams.legs import ClientLeg, ContainerLeg
from partway.gateway.streams.open_stream import Counts
from partway.gateway.streams.states import SessionAction, SessionEvent, SessionState, follows
from partway.gateway.timing.clock import Clock, Timer
from partway.log_lines import LogLine
from partway.protocol.connections.peer_watch import StallWatch, Wait
from partway.protocol.parts import CompletionState, PayloadPart
from partway.protocol.websocket.close_codes import Close
from partway.protocol.websocket.frame_decoder import FrameError

log = logging.getLogger("partway.stream")


# A member lookup on an enum class costs as much as the rest of a part's way through here.
_RELAYING = SessionState.RELAYING
_RELAY = SessionAction.RELAY
_COMPLETE = CompletionState.COMPLETE


class Patience(NamedTuple):
    """The longest silence of a container: the name of the setting, and its seconds."""

    setting: str
    seconds: float


class Session:
    """One stream between a client and a container.

    Args:
        on_end: called once, with the cause named and the counts final.

    Attributes:
        parts_saved: parts that came after the client's input had ended and before the container was
            told so. Many containers send nothing more after a Close, so ``input_end = "close"``
            would have lost them.
    """

    status = None

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
        self.state = SessionState.RELAYING
        self.ending: Ending | None = None
        self.from_client = Counts()
        self.from_container = Counts()
        self.parts_saved = 0
        self.started_at = clock.time()
        self.first_part_at: float | None = None
        self.ended_at: float | None = None
        self._clock = clock
        self._on_end = on_end
        self._heard_at = self.started_at  # the container's last frame
        self._answered = False  # a whole message has come since the client's last part
        self._container_mid_message = False
        self._legs_open = 2
        self._closed: asyncio.Future[None] | None = None
        self._lifetime: Timer | None = None
        self._silence = SilenceWatch(
            clock, container.taken_bytes, container.unsent_bytes, self._container_silent
        )
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
        # Both can be sent to before either is read.
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
        """Pass a part from the client to the container (clause 1.2)."""
        if self.state is not _RELAYING:  # in this state the table says RELAY
            fault = ClientFault("a part came after the end of input")
            self._ended_by(SessionEvent.PART_FROM_CLIENT, ends.client_fault(fault))
            return
        counts = self.from_client
        counts.parts += 1
        counts.bytes += len(part.payload)
        self._answered = False
        self.container.send(part)

    def input_ended(self) -> None:
        """Handle the end of the client's input (clauses 1.5-11, 1.5-12)."""
        if self._closes_at_once():
            event = SessionEvent.INPUT_ENDED_CLOSE_NOW
        else:
            event = SessionEvent.INPUT_ENDED_CLOSE_LATER
        match self._happens(event):
            case SessionAction.CLOSE:
                self._close_container()
            case SessionAction.AWAIT:
                self._await_silence()
            case _:
                pass

    def client_finished(self) -> None:
        """End: the client has left in good order, and needs no answer (clause 3-2)."""
        self._ended_by(SessionEvent.CLIENT_FINISHED, ends.client_finished())

    def client_gone(self, cause: Cause) -> None:
        """End: the client cancelled, was cut or is unresponsive (row 1.5-9)."""
        self._ended_by(SessionEvent.CLIENT_GONE, ends.client_gone(cause))

    def client_failed(self, fault: ClientFault) -> None:
        """End: the client made a fault; nothing after it is relayed (row 1.5-10)."""
        self._ended_by(SessionEvent.CLIENT_FAILED, ends.client_fault(fault))

    def client_blocked(self) -> None:
        """Stop reading the container: the client takes less than the container sends."""
        if self._happens(SessionEvent.CLIENT_BLOCKED) is SessionAction.PAUSE:
            self._silence.hold()
            self.container.pause_reading()
            self.client_stall.waiting(Wait.HIGH_WATER)

    def client_drained(self) -> None:
        """Read the container again: the client's leg is below its low-water mark."""
        if self._happens(SessionEvent.CLIENT_DRAINED) is SessionAction.RESUME:
            self.client_stall.moving(Wait.HIGH_WATER)
            self._heard_at = self._clock.time()  # its frames have waited unseen meanwhile
            self._silence.release()
            self.container.resume_reading()

    # --- From the container's leg ----------------------------------------------------------------

    def part_from_container(self, part: PayloadPart) -> None:
        """Pass a part from the container to the client (clause 1.3)."""
        action = _RELAY
        if self.state is not _RELAYING:
            action = self._happens(SessionEvent.PART_FROM_CONTAINER)
            if action is SessionAction.NOTHING:
                return
        self._heard_at = now = self._clock.time()
        if self.first_part_at is None:
            self.first_part_at = now
        counts = self.from_container
        counts.parts += 1
        counts.bytes += len(part.payload)
        if part.completion is _COMPLETE:
            self._answered = True
            self._container_mid_message = False
        else:
            self._container_mid_message = True
        if action is not _RELAY:
            self._silence.heard(self._patience().seconds)
            self.parts_saved += action is SessionAction.RELAY_SAVED
        self.client.send(part)

    def container_closed(self, close: Close) -> None:
        """Handle the container's Close, which is answered already (clause 1.5)."""
        match self._happens(SessionEvent.CONTAINER_CLOSED):
            case SessionAction.END:
                self._end(ends.container_closed(close, self.policy.normal_close))
            case SessionAction.END_AWAITED:
                self._end(ends.container_answered(close, input_cut_message=False))
            case SessionAction.END_ANSWERED:
                cut = self.container.mid_message
                self._end(ends.container_answered(close, input_cut_message=cut))
            case _:
                pass

    def container_failed(self, error: FrameError) -> None:
        """End: the container broke RFC 6455 (rows 1.5-4 to 1.5-6)."""
        ending = ends.container_broke_protocol(error)
        self._ended_by(SessionEvent.CONTAINER_FAILED, ending)

    def container_lost(self) -> None:
        """End: the container's connection ended without Close (row 1.5-3)."""
        self._ended_by(SessionEvent.CONTAINER_LOST, ends.container_lost())

    def container_unresponsive(self) -> None:
        """End: the container's liveness is lost (row 1.5-8)."""
        ending = ends.container_unresponsive(self.policy.pings_unanswered)
        self._ended_by(SessionEvent.CONTAINER_UNRESPONSIVE, ending)

    def container_blocked(self) -> None:
        """Stop reading the client: the container takes less than the client sends."""
        if self._happens(SessionEvent.CONTAINER_BLOCKED) is SessionAction.PAUSE:
            self.client.pause_reading()
            self.container_stall.waiting(Wait.HIGH_WATER)

    def container_drained(self) -> None:
        """Read the client again: the container's leg is below its low-water mark."""
        if self._happens(SessionEvent.CONTAINER_DRAINED) is SessionAction.RESUME:
            self.container_stall.moving(Wait.HIGH_WATER)
            self.client.resume_reading()

    # --- From the gateway ------------------------------------------------------------------------

    def drain(self) -> None:
        """End: the gateway stops (row 1.5-9)."""
        self._ended_by(SessionEvent.GATEWAY_DRAINING, ends.gateway_draining())

    def failed(self) -> None:
        """End: the gateway's own code raised; called inside the ``except`` for it (row 1.5-8)."""
        fault = sys.exception()
        line = LogLine("stream failed", endpoint=self.endpoint, request_id=self.request_id)
        log.error(line, exc_info=fault)
        self._ended_by(SessionEvent.GATEWAY_FAILED, ends.gateway_fault())

    def leg_closed(self) -> None:
        self._legs_open -= 1
        if not self._legs_open and self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    # --- After the client's input ----------------------------------------------------------------

    def _closes_at_once(self) -> bool:
        """Say whether the container hears of the input's end now (clause 1.5-12)."""
        if self.policy.input_end == "auto":
            nothing_to_answer = not self.from_client.parts or self.container.mid_message
            return nothing_to_answer or self.container.finishes_before_close
        return self.policy.input_end == "close"

    @property
    def _answer_whole(self) -> bool:
        return self._answered and not self._container_mid_message

    def _patience(self) -> Patience:
        """Return the longest silence allowed to the container now (clause 1.5-12)."""
        policy = self.policy
        closing = self.state is SessionState.CLOSING
        finishes = self.container.finishes_before_close if closing else not self._answer_whole
        if finishes and policy.input_end == "auto":
            return Patience("answer_timeout", policy.answer_timeout)
        if closing:
            return Patience("close_timeout", policy.close_timeout)
        return Patience("drain_timeout", policy.drain_timeout)

    def _await_silence(self) -> None:
        """Wait for the container to be silent (clause 1.5-12)."""
        # The silence after a whole answer may have been long enough already.
        waits = self.policy.input_end == "drain" or not self._answer_whole
        since = self._clock.time() if waits else self._heard_at
        self._silence.begin(self._patience().seconds, since, once_taken=True)

    def _close_container(self) -> None:
        """Send Close(1000), and let the container finish, or answer it (clause 1.5-12)."""
        self.container.close(ends.INPUT_ENDED)
        if self.state is SessionState.CLOSING:  # a failed write may have ended it
            now = self._clock.time()
            self._silence.begin(self._patience().seconds, now, once_taken=False)

    def _container_silent(self) -> None:
        patience = self._patience()
        if self._happens(SessionEvent.CONTAINER_SILENT) is SessionAction.END:
            self._end(ends.close_timeout(patience.setting, patience.seconds))
            return
        if patience.setting == "answer_timeout":
            silent = f"the container has been silent for {patience.seconds:g} s"
            log.warning(
                LogLine(
                    "no whole answer",
                    endpoint=self.endpoint,
                    request_id=self.request_id,
                    reason=f"{silent} after the input's end ({patience.setting})",
                )
            )
        self._close_container()

    # --- Timers ----------------------------------------------------------------------------------

    def _lifetime_over(self) -> None:  # clause 1.4-5
        self._ended_by(SessionEvent.LIFETIME_OVER, ends.lifetime_over(self.policy.lifetime))

    def _client_stalled(self) -> None:
        ending = ends.client_stalled(self.policy.stall_timeout)
        self._ended_by(SessionEvent.CLIENT_STALLED, ending)

    def _container_stalled(self) -> None:
        ending = ends.container_stalled(self.policy.stall_timeout)
        self._ended_by(SessionEvent.CONTAINER_STALLED, ending)

    # --- The table, and the one end --------------------------------------------------------------

    def _happens(self, event: SessionEvent) -> SessionAction:
        self.state, action = follows(self.state, event)
        return action

    def _ended_by(self, event: SessionEvent, ending: Ending) -> None:
        if self._happens(event) is SessionAction.END:
            self._end(ending)

    def _end(self, ending: Ending) -> None:
        """End the stream: every end comes through here, once (clause 1.5-13)."""
        self.ending = ending
        self.ended_at = self._clock.time()
        self._silence.stop()
        if self._lifetime is not None:
            self._lifetime.cancel()
        self.client_stall.stop()
        self.container_stall.stop()
        with ExitStack() as whatever_raises:
            whatever_raises.callback(self._on_end, self)
            whatever_raises.callback(self.client.finish, ending)
            self.container.finish(ending)
