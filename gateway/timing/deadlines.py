"""Deadlines: waits with a time limit by an injected clock, and for the first of several events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from partway.gateway.timing.clock import Clock
from partway.gateway.timing.many_timers import Line, ManyTimers

_T = TypeVar("_T")

#: The line of limits that have not begun.
_NOWHERE: Final[Line] = {}


class RunningTask:
    """Finds the running task of one loop; 3.11 asks the system each time which loop runs."""

    __slots__ = ("_loop",)

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> asyncio.Task[Any]:
        """Return the running task; to be called in tasks of one loop only."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None, "a task alone asks for itself"
        return task


class TimeLimit:
    """A cheaper time limit than :func:`asyncio.timeout`; entered once, by a task.

    Raises:
        TimeoutError: the block took longer, and its wait was cancelled.
    """

    __slots__ = ("_cancelling", "_line", "_seconds", "_task", "_timers", "due", "expired")

    def __init__(self, seconds: float, timers: ManyTimers) -> None:
        #: Whether the time was over before the block was.
        self.expired = False
        self.due: float
        self._seconds = seconds
        self._timers = timers
        self._line = _NOWHERE

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None, "a block with a time limit is in a task"
        self.begin(task)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end(error)

    def begin(self, task: asyncio.Task[Any]) -> None:
        """Begin the time limit; no limit applies before."""
        self._task = task
        self._cancelling = task.cancelling()
        self._line = self._timers.stand(self, self._seconds)

    def end(self, error: BaseException | None) -> None:
        """End the time limit.

        Raises:
            TimeoutError: the block took longer, and was cancelled for that.
        """
        self._line.pop(self, None)
        is_ours = self.expired and self._task.uncancel() <= self._cancelling
        if is_ours and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error

    def lift(self) -> None:
        """Lift the limit, unless the time is over already."""
        self._line.pop(self, None)

    def cut_short(self) -> None:
        """End the time now, if it is not over; only during the block."""
        if not self.expired:
            self._line.pop(self, None)
            self.time_over()

    def time_over(self) -> None:
        self.expired = True
        self._task.cancel()


@asynccontextmanager
async def time_limit(clock: Clock, seconds: float) -> AsyncIterator[None]:
    """Limit the time of a block like :func:`asyncio.timeout`, by the caller's clock.

    Raises:
        TimeoutError: the block took longer, and its wait was cancelled.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:
        timer = clock.call_later(seconds, lambda: limit.reschedule(loop.time()))
        try:
            yield
        finally:
            timer.cancel()


@asynccontextmanager
async def held_in_time(
    lock: asyncio.Lock, clock: Clock, seconds: float, overdue: Callable[[], Exception]
) -> AsyncIterator[None]:
    """Hold a lock in the block, if its turn comes within a time.

    Args:
        lock: the lock, which others may hold meanwhile.
        clock: measures the time.
        seconds: for the wait; the block itself may take any time.
        overdue: makes the error to raise if the turn has not come in time.
    """
    try:
        async with time_limit(clock, seconds):
            await lock.acquire()
    except TimeoutError:
        raise overdue() from None
    try:
        yield
    finally:
        lock.release()


async def pause(clock: Clock, seconds: float) -> None:
    """Sleep like :func:`asyncio.sleep`, by the caller's clock."""
    over = asyncio.Event()
    timer = clock.call_later(seconds, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()


async def set_or_over(event: asyncio.Event, clock: Clock, seconds: float) -> None:
    """Wait until an event is set, for at most so many seconds by the caller's clock."""
    with suppress(TimeoutError):
        async with time_limit(clock, seconds):
            await event.wait()


def set_or_call(event: asyncio.Event, again: Callable[[], None]) -> None:
    """Set an event the first time; call ``again`` each further time."""
    if event.is_set():
        again()
    event.set()


async def in_turns(many: Iterable[_T], per_turn: int) -> AsyncGenerator[_T, None]:
    """Yield many quickly handled items; other tasks have turns in between.

    One turn of the loop handles ``per_turn`` items.
    """
    for number, each in enumerate(many, 1):
        yield each
        if number % per_turn == 0:
            await asyncio.sleep(0)


async def side_by_side(count: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run so many copies of a piece of work at once, such as workers on one queue.

    Raises:
        BaseException: the first error of one of them. It stops the others, and further errors are
            dropped.
        CancelledError: the caller was cancelled, which cancels all of them; their errors are
            dropped.
    """
    # Not a TaskGroup: if its caller is cancelled and a task fails during that, it raises only the
    # failure.
    tasks = [asyncio.create_task(work()) for _ in range(count)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        errors = [_failure(task) for task in tasks if task.done()]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            _failure(task)  # retrieved, so that asyncio does not log it as lost
    if (first := next(filter(None, errors), None)) is not None:
        raise first


def _failure(task: asyncio.Task[None]) -> BaseException | None:
    """Return the error of a task that is over; None if it succeeded or was cancelled."""
    return None if task.cancelled() else task.exception()


async def first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def before(event: asyncio.Event, work: Coroutine[Any, Any, _T]) -> _T | None:
    """Work as long as an event is not set.

    Returns:
        The result of ``work``; None if the event was set first, which cancels ``work``.
    """
    working = asyncio.create_task(work)
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, waiting):
            task.cancel()
        await asyncio.wait((working, waiting))
    return None if working.cancelled() else working.result()
