"""Requests of many clients, computed together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Runs(Protocol):
    """Workers, as far as a batcher uses them."""

    def run(self, method: Callable[..., Any], /, *args: Any) -> Awaitable[Any]: ...


class Batcher(Generic[_Item, _Result]):
    """Collects the items of many clients, and computes them in one call of a method.

    ::

        def load(self, model_dir):
            self.batcher = Batcher(self.workers, self.predict_many, max_size=16, max_wait=0.01)

        async def invoke(self, request):
            return await self.batcher.run(await request.read())

        def predict_many(self, bodies: list[bytes]) -> list[bytes]: ...

    Rules:
        1. A batch leaves once it has ``max_size`` items, or ``max_wait`` seconds after its first.
        2. An item whose client has left does not leave with its batch.
        3. The method returns one result for each item, in order. An exception among the results is
           raised for its item alone; an exception of the call is raised for all.

    Args:
        workers: the model's workers.
        method: a method of the model: a list of items in, a list of results out.
        max_size: the most items of a batch.
        max_wait: the longest time that an item waits for others, in seconds.

    Raises:
        ValueError: ``max_size`` or ``max_wait`` is out of range.
    """

    def __init__(
        self,
        workers: Runs,
        method: Callable[[list[_Item]], Sequence[_Result | Exception]],
        *,
        max_size: int = 8,
        max_wait: float = 0.005,
    ) -> None:
        if max_size < 1:
            raise ValueError(f"max_size {max_size} was given; it must be 1 or more")
        if not 0 <= max_wait <= 60:
            raise ValueError(f"max_wait {max_wait} was given; it must be 0 to 60 seconds")
        self._workers = workers
        self._method = method
        self._max_size = max_size
        self._max_wait = max_wait
        self._waiting: list[tuple[_Item, asyncio.Future[_Result]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._calls: set[asyncio.Task[None]] = set()

    async def run(self, item: _Item) -> _Result:
        """Compute one item, together with those of other clients.

        Raises:
            Busy: the workers have too much to do.
            Exception: any exception of the method.
        """
        loop = asyncio.get_running_loop()
        result: asyncio.Future[_Result] = loop.create_future()
        self._waiting.append((item, result))
        if len(self._waiting) >= self._max_size:
            self._leave()
        elif self._timer is None:
            self._timer = loop.call_later(self._max_wait, self._leave)
        return await result

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = [each for each in self._waiting if not each[1].done()]
        self._waiting = []
        if batch:
            call = asyncio.get_running_loop().create_task(self._compute(batch))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    async def _compute(self, batch: list[tuple[_Item, asyncio.Future[_Result]]]) -> None:
        """Compute a batch; cancelling it, as the end of the loop does, cancels its items."""
        items = [item for item, _ in batch]
        found: Sequence[_Result | Exception]
        try:
            found = await self._workers.run(self._method, items)
            if len(found) != len(items):
                name = getattr(self._method, "__name__", "the method")
                raise ValueError(  # noqa: TRY301  # as any other exception of the call
                    f"{name} returned {len(found)} results for {len(items)} items"
                )
        except asyncio.CancelledError:
            for _, result in batch:
                result.cancel()
            raise
        except Exception as error:
            found = [error] * len(items)
        for (_, result), outcome in zip(batch, found, strict=True):
            if result.done():
                continue
            if isinstance(outcome, Exception):
                result.set_exception(outcome)
            else:
                result.set_result(outcome)
