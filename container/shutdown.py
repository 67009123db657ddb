"""The way down of a server: from the first signal to the last connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from partway.protocol.closing import GOING_AWAY
from partway.protocol.limits import SHUTDOWN_GRACE, SHUTDOWN_HARD, SHUTDOWN_SPREAD

_log = logging.getLogger("partway.container.server")


@dataclass(frozen=True, slots=True)
class ShutdownTimes:
    """How long a shutdown takes at most, in seconds; in all less than the 30 before SIGKILL.

    Attributes:
        grace: streams and invocations may end by themselves.
        spread: those that have not are closed one after the other.
        hard: they say goodbye.
    """

    grace: float = SHUTDOWN_GRACE
    spread: float = SHUTDOWN_SPREAD
    hard: float = SHUTDOWN_HARD


class Closable(Protocol):
    """A stream, as far as its end is concerned."""

    def close(self, code: int, reason: str) -> None:
        """End it."""


class Running(Protocol):
    """What runs on a server."""

    draining: bool

    @property
    def idle(self) -> bool:
        """Whether nothing runs."""

    @property
    def streams(self) -> Collection[Closable]:
        """The streams that are open."""


class Shutdown:
    """The end of a server.

    Rules (clause 1.1-1: SIGTERM, and SIGKILL 30 s later):
        1. At the first :meth:`stop` /ping answers 503 and nothing new begins. The port stays open,
           so that whoever asks hears so.
        2. What runs may end by itself for ``times.grace``.
        3. Streams that are left get Close 1001, spread over ``times.spread`` so that their clients
           do not come back as a herd.
        4. ``times.hard`` later the owner aborts connections and cancels handlers.
        5. As soon as nothing runs, nobody waits. A second :meth:`stop` skips 2 and the spread.

    Args:
        running: what is to end. It owes :meth:`on_idle` when it has.
        times: of the rules.
    """

    def __init__(self, running: Running, times: ShutdownTimes) -> None:
        self._running = running
        self._times = times
        self._stopping = asyncio.Event()
        self._nudge = asyncio.Event()
        #: Whether there was a second stop.
        self.hastened = False

    def stop(self) -> None:
        """Begin the end; a second time, hasten it. A signal handler may call this."""
        if self._stopping.is_set():
            self.hastened = True
            self._nudge.set()
        self._stopping.set()

    def on_idle(self) -> None:
        """Nothing runs any more."""
        if self._running.draining:
            self._nudge.set()

    async def begun(self) -> None:
        """Wait for :meth:`stop`."""
        await self._stopping.wait()

    async def unless_stopped(self, loading: Coroutine[Any, Any, None]) -> None:
        """See something through that may take long; it is cancelled by :meth:`stop`.

        Raises:
            Exception: whatever it raises.
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
        """Rules 1 to 3, and the time before 4."""
        running, times = self._running, self._times
        running.draining = True  # rule 1
        _log.info("stopping: %d streams open", len(running.streams))
        await self._pause(times.grace)  # rule 2
        clock = asyncio.get_running_loop().time
        began, left = clock(), list(running.streams)
        for number, stream in enumerate(left, 1):  # rule 3
            stream.close(GOING_AWAY, "the container is stopping")
            # By the clock: on a busy loop a thousand short waits would outlast the kill.
            await self._pause(began + times.spread * number / len(left) - clock())
        self._nudge.clear()  # hastened or not, they say goodbye
        await self._pause(times.hard)

    async def _pause(self, seconds: float) -> None:
        """Wait, but not once nothing runs or the end is hastened (rule 5)."""
        if self._running.idle or seconds <= 0:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._nudge.wait()
        except TimeoutError:
            return
