"""The streams of one gateway: which are being opened, which are open, and how they all end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from partway.gateway.streams.metrics import Metrics
from partway.gateway.streams.session import Session
from partway.protocol.errors import ServiceUnavailable

log = logging.getLogger("partway.gateway")
stream_log = logging.getLogger("partway.stream")


class Streams:
    """Admission, the open streams, and their way down.

    Args:
        max_streams: open at once, those included that are being opened.

    Attributes:
        sessions: the open streams.
        draining: whether nothing new is taken any more.
        metrics: counts of all streams.
    """

    def __init__(self, max_streams: int) -> None:
        self.sessions: set[Session] = set()
        self.metrics = Metrics(self.sessions)
        self.draining = False
        self._max_streams = max_streams
        self._opening: set[asyncio.Task[object]] = set()
        self._ending = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._hasten = asyncio.Event()

    @property
    def being_opened(self) -> int:
        """How many wait for their container."""
        return len(self._opening)

    @contextmanager
    def opening(self) -> Iterator[None]:
        """The time in which a stream is being opened; it counts as one.

        Raises:
            ServiceUnavailable: full, or draining (clause 4-6).
        """
        if self.draining:
            raise _draining()
        if len(self._opening) + len(self.sessions) >= self._max_streams:
            raise ServiceUnavailable(f"all {self._max_streams} streams of this gateway are in use")
        task = asyncio.current_task()
        assert task is not None, "a request is answered in a task"
        self._opening.add(task)
        self._idle.clear()
        try:
            yield
        except asyncio.CancelledError:
            if not self._ending or task.uncancel():  # the client has left as well
                raise
            raise _draining() from None
        finally:
            self._opening.discard(task)
            self._check_idle()

    def started(self, session: Session) -> None:
        """A stream is about to run."""
        self.sessions.add(session)

    def ended(self, session: Session) -> None:
        """A stream has ended; its one line in the log."""
        self.sessions.discard(session)
        self.metrics.ended(session)
        self._check_idle()
        ending, ended_at = session.ending, session.ended_at
        assert ending is not None, "an ended session has its ending"
        assert ended_at is not None, "an ended session has its time"
        first = session.first_part_at
        stream_log.info(
            "stream ended endpoint=%s request_id=%s duration=%.3f parts_in=%d bytes_in=%d "
            "parts_out=%d bytes_out=%d first_part=%s cause=%s",
            session.endpoint,
            session.request_id,
            ended_at - session.started_at,
            session.from_client.parts,
            session.from_client.bytes,
            session.from_container.parts,
            session.from_container.bytes,
            "-" if first is None else f"{first - session.started_at:.4f}",
            ending.cause.value,
        )

    def _check_idle(self) -> None:
        if not self._opening and not self.sessions:
            self._idle.set()

    # --- The way down ----------------------------------------------------------------------------

    def hasten(self) -> None:
        """Cut the drain short: a second signal."""
        self._hasten.set()

    async def drain(self, grace: float, spread: float) -> None:
        """Take nothing new, and end what is open.

        Args:
            grace: seconds for streams to end by themselves. Then those that are still being
                opened are refused.
            spread: seconds over which the rest are ended, one by one, so that their clients do
                not all return at once.
        """
        self.draining = True
        log.info("draining streams=%d", len(self.sessions))
        await self._wait_idle(grace)
        self._ending = True
        for task in self._opening:  # their containers have not answered, and need not any more
            task.cancel()
        left = list(self.sessions)
        for position, session in enumerate(left):
            if position:
                await self._pause(spread / len(left))
            session.drain()

    async def _wait_idle(self, timeout: float) -> None:
        waits = [asyncio.ensure_future(event.wait()) for event in (self._idle, self._hasten)]
        try:
            await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hasten.wait(), seconds)


def _draining() -> ServiceUnavailable:
    return ServiceUnavailable("the gateway is draining; another one may take the stream")
