"""A work queue of names: one worker per name, and a repetition if the name changes meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from partway.gateway.timing.clock import Clock, Timer
from partway.log_lines import LogLine

log = logging.getLogger("partway.kubernetes")


class WorkQueue:
    """A set of names, of which a limited number is worked on at a time.

    Args:
        places: the number of names that are worked on at a time.
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
        """Have a name worked on, or once more if it is being worked on."""
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
        """Have a name worked on after a delay, unless it is worked on earlier."""
        if not self._closed and name not in self._later:
            self._later[name] = self._clock.call_later(seconds, self._due, name)

    async def aclose(self) -> None:
        """Stop; work in progress is cancelled."""
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
        except Exception:  # an unexpected exception must not end the work on other names
            log.exception(LogLine("work on a custom resource failed", endpoint=name))
