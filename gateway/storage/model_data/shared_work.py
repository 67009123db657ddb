"""Work that is requested by several tasks at once, and done once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


class WorkEnded(Exception):
    """The work was cancelled by :meth:`SharedWork.aclose`."""


@dataclass(eq=False)
class _Job(Generic[_T]):
    """One piece of work.

    Attributes:
        wanted: the number of tasks that wait for the result.
        settled: whether the result has been passed to ``let_go``.
    """

    task: asyncio.Task[_T]
    wanted: int = 0
    settled: bool = False


class SharedWork(Generic[_T]):
    """Does each piece of work once, however many tasks ask for it meanwhile.

    The work goes on while a task waits, and is cancelled when the last one stops waiting.

    Args:
        let_go: called with each result once no task waits; a task that has taken the result holds
            it separately by then.
    """

    def __init__(self, let_go: Callable[[_T], None]) -> None:
        self._let_go = let_go
        self._jobs: dict[str, _Job[_T]] = {}
        #: All running work. It includes work that nobody waits for: a cancelled task may not wait
        #: for the end of its work.
        self._tasks: set[asyncio.Task[_T]] = set()

    async def done(
        self, key: str, work: Callable[[], Coroutine[Any, Any, _T]], take: Callable[[_T], _R]
    ) -> _R:
        """Do the work, or wait for it if it is being done.

        Args:
            take: turns the result into the caller's own; it must not wait.

        Returns:
            The result of ``take``.

        Raises:
            WorkEnded: the work was cancelled.
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
        """Cancel all work; call this once no task begins any."""
        for task in self._tasks:
            if not task.cancelling():  # otherwise it is ending, which takes a while
                task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _settle(self, job: _Job[_T]) -> None:
        if not job.wanted and job.task.done() and not job.settled:
            job.settled = True
            if not job.task.cancelled() and job.task.exception() is None:
                self._let_go(job.task.result())
