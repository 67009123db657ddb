"""The registry of streams: those being opened, those that are open, and how they all end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Self

from partway.gateway.limits import STANDING_CHECK_INTERVAL
from partway.gateway.quota import NOBODY, LiveGateways, NamedCounts, Quota, QuotaFull, QuotaLimits
from partway.gateway.streams.ends import ClientFault
from partway.gateway.streams.metrics import Metrics
from partway.gateway.streams.open_stream import OpenStream
from partway.gateway.timing.clock import Clock, LoopClock, Timer
from partway.gateway.timing.deadlines import RunningTask
from partway.gateway.timing.many_timers import ManyTimers
from partway.log_lines import LogLine
from partway.protocol.draining import Departures
from partway.protocol.errors import ServiceUnavailable
from partway.protocol.parts import INVALID_SIGNATURE

log = logging.getLogger("partway.gateway")
stream_log = logging.getLogger("partway.stream")


_TAKEN_AWAY = ClientFault(
    "the key, token or permission that opened the stream has been withdrawn",
    INVALID_SIGNATURE,
)


class Streams:
    """Admission of streams, the open streams, and their drain.

    Args:
        max_streams: streams open at once, those included that are being opened.
        per_principal: streams of one principal open at once; by default the limit of all.
        counts: shared with other processes, whose streams count too.
        gateways: those among which a principal's share is divided; None for this one alone.

    Attributes:
        ending: whether open streams are being ended, and those being opened refused.
        timers: the clock, for timers that are mostly cancelled early.
    """

    def __init__(
        self,
        max_streams: int,
        clock: Clock | None = None,
        per_principal: int | None = None,
        counts: NamedCounts | None = None,
        gateways: LiveGateways | None = None,
    ) -> None:
        self.sessions: set[OpenStream] = set()
        self.draining = False
        of_one = max_streams if per_principal is None else per_principal
        #: Counts streams that are open or being opened.
        self._quota = Quota(QuotaLimits(max_streams, of_one), counts, "streams", gateways)
        #: Streams whose principal has a name, with that name.
        self._principals: dict[OpenStream, str] = {}
        self._stands: dict[OpenStream, Callable[[], bool]] = {}
        self._looking: Timer | None = None
        self._opening: set[asyncio.Task[object]] = set()
        self._running = RunningTask()
        self._clock = clock or LoopClock()
        self.timers = ManyTimers(self._clock)
        self.metrics = Metrics(self.sessions)
        self.ending = False
        self._hastened = False
        self._news = asyncio.Event()  # for the drain: hastened, idle, or its pause is over

    @property
    def idle(self) -> bool:
        return not self._opening and not self.sessions

    def opening(self, principal: str | None = None) -> StreamOpening:
        """Return a block in which a stream is being opened; it counts as a stream.

        Args:
            principal: its sender; None without authentication.

        Returns:
            The block. It raises ServiceUnavailable at its beginning if the gateway is full or
            draining (clause 4-6), or the principal has its share. It raises the same if the
            gateway's end cancels it before the stream is open.
        """
        return StreamOpening(self, principal)

    def _begin_opening(self, principal: str | None) -> asyncio.Task[object]:
        """Take a place for a stream, and return the task that opens it; see :meth:`opening`."""
        if self.draining:
            raise _draining()
        task = self._running.get()
        try:
            self._quota.take(1, principal or NOBODY)
        except QuotaFull as full:
            raise _full(full) from None
        self._opening.add(task)
        return task

    def _end_opening(self, task: asyncio.Task[object], principal: str | None) -> None:
        """Note that the opening is over: the stream is kept, or has failed to open."""
        self._opening.discard(task)
        self._quota.give_back(1, principal or NOBODY)
        self._check_idle()

    def started(
        self,
        session: OpenStream,
        principal: str | None = None,
        stands: Callable[[], bool] | None = None,
    ) -> None:
        """Keep a stream that is about to run.

        ``principal`` is None without authentication. ``stands`` says whether the stream may still
        go on; it is called every STANDING_CHECK_INTERVAL.
        """
        self._quota.count(1, principal or NOBODY)
        self._keep(session, principal, stands)

    def _keep(
        self, session: OpenStream, principal: str | None, stands: Callable[[], bool] | None
    ) -> None:
        """Keep a stream that is about to run, and that the quota counts already."""
        self.sessions.add(session)
        if principal is not None:
            self._principals[session] = principal
            if stands is not None:
                self._stands[session] = stands
                self._look_soon()
        if self.ending:  # it missed the drain's call; the end must come after its start
            self._clock.call_later(0, session.drain)

    def ended(self, session: OpenStream) -> None:
        """Forget a stream that has ended, count it, and log it in one line."""
        self.sessions.discard(session)
        if self._stands.pop(session, None) is not None and not self._stands and self._looking:
            self._looking.cancel()
            self._looking = None
        self._quota.give_back(1, self._principals.pop(session, NOBODY))
        self._check_idle()
        self.metrics.ended(session)
        _log_end(session)

    def _look_soon(self) -> None:
        if self._looking is None:
            self._looking = self._clock.call_later(STANDING_CHECK_INTERVAL, self._look)

    def _look(self) -> None:
        """End the streams whose sender's key, token or permission has been withdrawn."""
        self._looking = None
        try:
            for session, stands in list(self._stands.items()):
                if session in self.sessions and not stands():
                    line = "the key, token or permission of a stream has been withdrawn"
                    stream_log.info(LogLine(line, request_id=session.request_id))
                    session.client_failed(_TAKEN_AWAY)
        finally:
            if self._stands:
                self._look_soon()

    def _check_idle(self) -> None:
        if self.draining and self.idle:
            self._news.set()

    # --- The drain -------------------------------------------------------------------------------

    def hasten(self) -> None:
        """Cut the drain short: a second signal."""
        self._hastened = True
        self._news.set()

    async def drain(self, grace: float, spread: float) -> None:
        """Refuse new streams, and end the open ones; return as soon as no stream is open.

        Args:
            grace: seconds for streams to end by themselves. Then those that are still being opened
                are refused.
            spread: seconds over which the rest are ended, evenly, so that their clients do not all
                return at once.
        """
        self.draining = True
        log.info(LogLine("draining", streams=len(self.sessions)))
        await self._pause(grace)
        self.ending = True
        for task in self._opening:  # their containers have not answered, and need not
            task.cancel()
        clock = self._clock
        departures = Departures(self.sessions, spread, clock.time())
        while departures.left and self.sessions:
            if self._hastened:
                departures.hasten()
            for session in departures.due(clock.time()):
                if session in self.sessions:
                    session.drain()
            await self._pause(departures.wait(clock.time()))

    async def _pause(self, seconds: float) -> None:
        """Wait, but for no more than a turn of the loop once idle or hastened."""
        if seconds <= 0 or self.idle or self._hastened:
            await asyncio.sleep(0)
            return
        self._news.clear()
        timer = self._clock.call_later(seconds, self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()


class StreamOpening:
    """A block in which a stream is being opened; made by :meth:`Streams.opening`."""

    # A class: a generator's block costs a request as much as twenty calls.

    __slots__ = ("_principal", "_streams", "_task")

    def __init__(self, streams: Streams, principal: str | None) -> None:
        self._streams = streams
        self._principal = principal
        #: The task that opens it; None before the block, and once the stream is open.
        self._task: asyncio.Task[object] | None = None

    def __enter__(self) -> Self:
        self._task = self._streams._begin_opening(self._principal)  # noqa: SLF001
        return self

    def started(self, session: OpenStream, stands: Callable[[], bool] | None = None) -> None:
        """End the opening within the block: the stream is open, and is about to run.

        Args:
            session: the stream, which takes the place of the one that was being opened.
            stands: as in :meth:`Streams.started`.
        """
        task, self._task = self._task, None
        assert task is not None, "it is being opened"
        streams, principal = self._streams, self._principal
        streams._opening.discard(task)  # noqa: SLF001
        streams._keep(session, principal, stands)  # noqa: SLF001

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        task = self._task
        if task is None:
            return
        self._streams._end_opening(task, self._principal)  # noqa: SLF001
        if not isinstance(error, asyncio.CancelledError):
            return
        if self._streams.ending and not task.uncancel():  # else the client has left as well
            raise _draining() from None


def _draining() -> ServiceUnavailable:
    return ServiceUnavailable("the gateway is draining; another one may take the stream")


def _full(full: QuotaFull) -> ServiceUnavailable:
    if full.owner == NOBODY:
        return ServiceUnavailable(f"all {full.most} streams of this gateway are in use")
    return ServiceUnavailable(
        f"{full.owner!r} has {full.used} streams open, as many as one principal may have "
        "(max_streams_per_principal); try again when one of them has ended"
    )


def _log_end(session: OpenStream) -> None:
    ending, ended_at = session.ending, session.ended_at
    assert ending is not None, "an ended session has its ending"
    assert ended_at is not None, "an ended session has its time"
    first = session.first_part_at
    line = LogLine(
        "stream ended",
        endpoint=session.endpoint,
        request_id=session.request_id,
        duration=round(ended_at - session.started_at, 3),
        parts_in=session.from_client.parts,
        bytes_in=session.from_client.bytes,
        parts_out=session.from_container.parts,
        bytes_out=session.from_container.bytes,
        first_part=None if first is None else round(first - session.started_at, 4),
        parts_saved=session.parts_saved,
        cause=ending.cause.value,
        **({} if session.status is None else {"status": session.status}),
    )
    stream_log.info(line)
