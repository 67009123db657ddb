"""A job on the loop's side: one call of a method, from the asking to what its client gets."""

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
    """What does one job at a time, as the loop tells it."""

    def begin(self, job: Job) -> None:
        """Do a job."""

    def grant(self, items: int) -> None:
        """Let ``items`` more items of the job come."""

    def give_up(self) -> None:
        """Stop the job as soon as possible: nobody waits for it any more."""


class Job(ABC):
    """One call of a method of the model.

    Attributes:
        method: what is called, with ``args`` and ``kwargs``.
        worker: who does the job now; None if nobody does.
        timer: the deadline's.
        over: whether the client has its end, or has left; a worker may still be at the job.
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
    def settle(self, outcome: Outcome) -> None:
        """Tell the client what became of the job."""


class Call(Job, Generic[_T]):
    """A job with one result.

    Attributes:
        result: what its client awaits.
    """

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
    """A job that yields, and the items that its client has not taken."""

    yields = True

    def __init__(
        self, method: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        super().__init__(method, args, kwargs)
        self._loop = asyncio.get_running_loop()
        #: What the worker has yielded and the loop has not seen yet: appended to by the one,
        #: emptied by the other. Both together are bounded by the worker's gate.
        self._inbox: deque[_T] = deque()
        self._announced = False
        self._items: deque[_T] = deque()
        self._taken = 0
        self._waiting: asyncio.Future[None] | None = None
        self._outcome: Outcome | None = None

    def emit(self, item: _T) -> None:
        """Pass an item on to the loop; for the worker. However many there are, it is woken once."""
        self._inbox.append(item)
        if not self._announced:
            self._announced = True
            post(self._loop, self._collect)

    def settle(self, outcome: Outcome) -> None:
        self._collect()
        self._outcome = outcome
        self._wake()

    def discard(self) -> None:
        """Forget what has not been taken: the client has left."""
        self._outcome = Outcome()
        self._inbox.clear()
        self._items.clear()

    async def take(self) -> _T:
        """The next item, once there is one.

        Raises:
            StopAsyncIteration: no item is left, and none will come.
            Exception: what the job ended with, once.
            RuntimeError: another task waits for the next item already.
        """
        if self._waiting is not None:
            raise RuntimeError("another task waits for the next item: one task must wait at a time")
        while not self._items:
            if self._outcome is not None:
                error, self._outcome = self._outcome.error, Outcome()
                try:
                    raise error if error is not None else StopAsyncIteration
                finally:
                    del error  # else its traceback holds this frame, and this frame holds it
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
        # In this order: an item that comes in between is announced again.
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
    """What a generator of the model yields on its worker, item by item.

    It ends, and with it the generator, when its last item is taken, when the task that waits for
    the next one is cancelled, when it is closed (:meth:`aclose`, which
    :func:`contextlib.aclosing` calls), and when nobody holds it any more: leaving the ``async for``
    that it was made for is enough.
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
        """End the iteration. Its generator is closed, and not waited for: it may hang."""
        self._close()

    def _close(self) -> None:
        self._give_up(self._job)
        self._job.discard()

    def __del__(self) -> None:
        # On whichever thread the last reference went, at whatever point of its code.
        if not self._job.over:
            post(self._loop, self._give_up, self._job)
