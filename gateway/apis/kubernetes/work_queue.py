"""Work on things by their names: each is worked on by one at a time, and again where it changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from partway.gateway.timing.clock import Clock, Timer
from partway.log_lines import LogLine

log = logging.getLogger("partway.kubernetes")


class WorkQueue:
    """Names, each there once; as many are worked on at a time as there are places.

    Args:
        work: does what is to be done for a name.
        places: how many are worked on at a time.
        clock: measures how long names wait that are to be later.
    """

    def __init__(self, work: Callable[[str], Awaitable[None]], places: int, clock: Clock) -> None:
        self._work = work
        self._places = asyncio.Semaphore(places)
        self._clock = clock
        self._again: set[str] = set()
        self._working: dict[str, asyncio.Task[None]] = {}
        self._later: dict[str, Timer] = {}
        self._closed = False

    def add(self, name: str) -> None:
        """Have a name worked on; once more where it is worked on just now."""
        if self._closed:
            return
        if timer := self._later.pop(name, None):
            timer.cancel()
        if name in self._working:
            self._again.add(name)
            return
        task = asyncio.create_task(self._until_done(name), name=f"custom resources of {name}")
        self._working[name] = task

    def add_later(self, name: str, seconds: float) -> None:
        """Have a name worked on in so many seconds, unless it is before."""
        if not self._closed and name not in self._later:
            self._later[name] = self._clock.call_later(seconds, self._due, name)

    async def aclose(self) -> None:
        """Work on nothing more; what is under way is cancelled."""
        self._closed = True
        for timer in self._later.values():
            timer.cancel()
        self._later.clear()
        tasks = set(self._working.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _due(self, name: str) -> None:
        self._later.pop(name, None)
        self.add(name)

    async def _until_done(self, name: str) -> None:
        try:
            while True:
                self._again.discard(name)
                async with self._places:
                    await self._work_on(name)
                if name not in self._again:
                    return
        finally:
            del self._working[name]

    async def _work_on(self, name: str) -> None:
        try:
            await self._work(name)
        except Exception:  # a fault of ours is not the end of all others
            log.exception(LogLine("a custom resource is not worked on", endpoint=name))
