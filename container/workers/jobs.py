"""Jobs, as seen by the loop: one call of a method, from the request to its result."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from partway.container.limits import ITEMS_HELD
from partway.container.threads import post
from partway.container.workers.job_execution import Outcome

_T = TypeVar("_T")


class Worker(Protocol):
    """A worker, as used by the loop; it does one job at a time."""

    def begin(self, job: Job) -> None: ...

    def grant(self, items: int) -> None:
        """Let ``items`` more items of the job come."""

    def give_up(self) -> None:
        """Stop the job as soon as possible: it is no longer wanted."""


class Job(ABC):
    """One call of a method of the model.

    Attributes:
        method: the method to call, with ``args`` and ``kwargs``.
        worker: the worker that does the job now; None before and after.
        over: whether the client has its result, or has left; a worker may still do the job.
    """

    #: Whether the job yields items.
    yields: ClassVar[bool] = False

    def __init__(
        self, method: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        self.method = method
        self.args = args
        self.kwargs = kwargs
        self.worker: Worker | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.over = False

    def compute(self) -> Any:
        """Call the method; for a worker thread."""
        return self.method(*self.args, **self.kwargs)

    @abstractmethod
    def settle(self, outcome: Outcome) -> None: ...


class Call(Job, Generic[_T]):
    """A job with one result."""

    def __init__(
        self, method: Callable[..., _T], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        super().__init__(method, args, kwargs)
        self.result: asyncio.Future[_T] = asyncio.get_running_loop().create_future()

    def settle(self, outcome: Outcome) -> None:
        if self.result.done():
            return
        if outcome.error is not None:
            self.result.set_exception(outcome.error)
        else:
            self.result.set_result(outcome.value)


class Iteration(Job, Generic[_T]):
    """A job that yields items, with the items that its client has not taken."""

    yields = True

    def __init__(
        self, method: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        super().__init__(method, args, kwargs)
        self._loop = asyncio.get_running_loop()
        #: Items that the worker has appended and the loop has not moved yet. The worker's gate
        #: bounds this and the queue of moved items together.
        self._inbox: deque[_T] = deque()
        self._announced = False
        self._items: deque[_T] = deque()
        self._taken = 0
        self._waiting: asyncio.Future[None] | None = None
        self._outcome: Outcome | None = None

    def emit(self, item: _T) -> None:
        """Pass an item to the loop, from the worker. Several items wake the loop only once."""
        self._inbox.append(item)
        if not self._announced:
            self._announced = True
            post(self._loop, self._collect)

    def settle(self, outcome: Outcome) -> None:
        self._collect()
        self._outcome = outcome
        self._wake()

    def discard(self) -> None:
        """Drop the untaken items: the client has left."""
        self._outcome = Outcome()
        self._inbox.clear()
        self._items.clear()

    async def take(self) -> _T:
        """Return the next item, once there is one.

        Raises:
            StopAsyncIteration: all items were taken.
            Exception: the job's exception; it is raised once.
            RuntimeError: another task waits for the next item already.
        """
        if self._waiting is not None:
            raise RuntimeError("another task waits for the next item: only one may wait at a time")
        while not self._items:
            if self._outcome is not None:
                error, self._outcome = self._outcome.error, Outcome()
                try:
                    raise error if error is not None else StopAsyncIteration
                finally:
                    del error  # otherwise its traceback and this frame would refer to each other
            self._waiting = self._loop.create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        item = self._items.popleft()
        self._taken += 1
        if self._taken >= ITEMS_HELD // 2:
            if self.worker is not None:
                self.worker.grant(self._taken)
            self._taken = 0
        return item

    def _collect(self) -> None:
        # In this order, an item that comes in between is announced again.
        self._announced = False
        while self._inbox:
            item = self._inbox.popleft()
            if self._outcome is None:
                self._items.append(item)
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class Items(AsyncIterator[_T]):
    """The items that a model's generator yields on its worker.

    The iteration ends, and the generator with it, when the last item is taken or the waiting task
    is cancelled. It also ends with :meth:`aclose`, which :func:`contextlib.aclosing` calls, and
    when the last reference is gone. So leaving the ``async for`` is enough.
    """

    def __init__(self, job: Iteration[_T], give_up: Callable[[Job], None]) -> None:
        self._job = job
        self._give_up = give_up
        self._loop = asyncio.get_running_loop()

    def __aiter__(self) -> Items[_T]:
        return self

    async def __anext__(self) -> _T:
        try:
            return await self._job.take()
        except asyncio.CancelledError:
            self._close()
            raise

    async def aclose(self) -> None:
        """End the iteration, and close the generator without waiting for it, since it may hang."""
        self._close()

    def _close(self) -> None:
        self._give_up(self._job)
        self._job.discard()

    def __del__(self) -> None:
        # This may run on any thread, in the middle of any code.
        if not self._job.over:
            post(self._loop, self._give_up, self._job)
