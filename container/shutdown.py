"""Shutdown of a server, from the first signal to the last connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from partway.container.activity import Activity
from partway.log_lines import LogLine
from partway.protocol.draining import Departures
from partway.protocol.limits import SHUTDOWN_GRACE, SHUTDOWN_HARD, SHUTDOWN_SPREAD

_log = logging.getLogger("partway.container.server")


@dataclass(frozen=True, slots=True)
class ShutdownTimes:
    """Time limits of a shutdown, in seconds; together less than the 30 before SIGKILL.

    Attributes:
        grace: time for streams and invocations to end by themselves.
        spread: window over which the remaining streams are closed, evenly.
        hard: time for closed streams to finish.
    """

    grace: float = SHUTDOWN_GRACE
    spread: float = SHUTDOWN_SPREAD
    hard: float = SHUTDOWN_HARD


class Shutdown:
    """The shutdown of a server.

    Rules (clause 1.1-1: SIGTERM, and SIGKILL 30 s later):
        1. At the first :meth:`stop` /ping answers 503 and nothing new begins. The port stays open,
           so that clients are told so.
        2. Running streams and requests have ``times.grace`` to end by themselves.
        3. The remaining streams get Close 1001, spread over ``times.spread`` so that their clients
           do not come back as a herd (:class:`~partway.protocol.draining.Departures`).
        4. ``times.hard`` later the owner aborts connections and cancels handlers.
        5. The shutdown goes on as soon as nothing runs. A second :meth:`stop` skips 2 and the
           spread.

    Args:
        activity: the streams and requests to end; the shutdown sets its ``on_idle``.
    """

    def __init__(self, activity: Activity, times: ShutdownTimes) -> None:
        self._activity = activity
        activity.on_idle = self._on_idle
        self._times = times
        self._stopping = asyncio.Event()
        self._nudge = asyncio.Event()
        #: Whether :meth:`stop` was called twice.
        self.hastened = False

    def stop(self) -> None:
        """Begin to shut down; called again, hasten. A signal handler may call this."""
        if self._stopping.is_set():
            self.hastened = True
            self._nudge.set()
        self._stopping.set()

    async def begun(self) -> None:
        """Wait for :meth:`stop`."""
        await self._stopping.wait()

    async def unless_stopped(self, loading: Coroutine[Any, Any, None]) -> None:
        """Complete the loading, unless :meth:`stop` cancels it.

        Raises:
            Exception: whatever the loading raises.
        """
        task = asyncio.create_task(loading, name="loading")
        stopping = asyncio.create_task(self._stopping.wait(), name="stopping")
        try:
            await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            for each in (task, stopping):
                each.cancel()
            await asyncio.wait((task, stopping))

    async def drain(self) -> None:
        """Let streams and requests end: rules 1 to 3, and the wait before rule 4."""
        activity, times = self._activity, self._times
        activity.draining = True  # rule 1
        _log.info(LogLine("draining", streams=len(activity.streams)))
        await self._pause(times.grace)  # rule 2
        await self._close_streams(times.spread)  # rule 3
        self._nudge.clear()  # hastened or not, the streams get their closing handshake
        await self._pause(times.hard)

    async def _close_streams(self, spread: float) -> None:
        clock = asyncio.get_running_loop().time
        departures = Departures(self._activity.leave(), spread, clock())
        while departures.left and not self._activity.idle:
            if self.hastened:
                departures.hasten()
            for stream in departures.due(clock()):
                self._activity.take_leave(stream)
            await self._pause(departures.wait(clock()))

    async def _pause(self, seconds: float) -> None:
        """Wait; return after at most one loop turn once nothing runs or when hastened (rule 5)."""
        if seconds <= 0 or self._activity.idle or self._nudge.is_set():
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(seconds):
                await self._nudge.wait()
        except TimeoutError:
            return

    def _on_idle(self) -> None:
        if self._activity.draining:
            self._nudge.set()
