"""Work that several may ask for at once, and that is done once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


class WorkEnded(Exception):
    """The work was broken off, by :meth:`SharedWork.aclose`."""


@dataclass(eq=False)
class _Job(Generic[_T]):
    """One piece of work.

    Attributes:
        task: does it.
        wanted: how many wait for it.
        settled: whether its result has been let go.
    """

    task: asyncio.Task[_T]
    wanted: int = 0
    settled: bool = False


class SharedWork(Generic[_T]):
    """Does each piece of work once, however many ask for it meanwhile.

    It goes on as long as somebody waits, and is cancelled with the last one that does.

    Args:
        let_go: is called with each result once nobody waits for it any more; whoever has taken it
            by then holds it for itself.
    """

    def __init__(self, let_go: Callable[[_T], None]) -> None:
        self._let_go = let_go
        self._jobs: dict[str, _Job[_T]] = {}
        #: Those at work, also for nobody: who was the last to wait may not wait for their end.
        self._tasks: set[asyncio.Task[_T]] = set()

    async def done(
        self, key: str, work: Callable[[], Coroutine[Any, Any, _T]], take: Callable[[_T], _R]
    ) -> _R:
        """Do work, or wait for it where somebody has it done already.

        Args:
            key: is the same for the same work.
            work: begins it.
            take: makes a result its waiter's own, at once.

        Returns:
            What ``take`` returns.

        Raises:
            WorkEnded: it was broken off.
            Exception: what the work raised.
        """
        job = self._jobs.get(key)
        if job is None:
            job = self._jobs[key] = _Job(asyncio.create_task(work()))
            self._tasks.add(job.task)
            job.task.add_done_callback(self._tasks.discard)
            job.task.add_done_callback(lambda _: self._settle(job))
        job.wanted += 1
        try:
            await asyncio.wait([job.task])
            if job.task.cancelled():
                raise WorkEnded
            return take(job.task.result())
        finally:
            job.wanted -= 1
            if not job.wanted:
                if self._jobs.get(key) is job:
                    del self._jobs[key]
                self._settle(job)
                if not job.task.done():
                    job.task.cancel()
                    await asyncio.wait([job.task])

    async def aclose(self) -> None:
        """Break all work off; to be called once nobody begins any more."""
        for task in self._tasks:
            if not task.cancelling():  # else it is ending, which takes a while
                task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _settle(self, job: _Job[_T]) -> None:
        if not job.wanted and job.task.done() and not job.settled:
            job.settled = True
            if not job.task.cancelled() and job.task.exception() is None:
                self._let_go(job.task.result())
