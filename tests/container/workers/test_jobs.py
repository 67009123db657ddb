"""Items on their way from a worker to a client."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

from partway.container import TooSlow
from partway.container.limits import ITEMS_HELD
from partway.container.threads import in_thread
from partway.container.workers import jobs
from partway.container.workers.job_execution import Outcome
from partway.container.workers.jobs import Items, Iteration
from partway.container.workers.pool import Pool
from tests.container.wire import until

pytestmark = pytest.mark.usefixtures("no_leaks")


class ScriptedWorker:
    def __init__(self, deadline: float = 100.0) -> None:
        self.pool = Pool(0, deadline)
        self.pool.free(self)
        self.pool.open()
        self.granted = 0
        self.given_up = 0
        self.job: Iteration[Any] | None = None

    def iterate(self) -> Items[Any]:
        job: Iteration[Any] = Iteration(lambda: None, (), {})
        self.pool.submit(job)
        return Items(job, self.pool.give_up)

    def begin(self, job: Any) -> None:
        self.job = job

    def grant(self, items: int) -> None:
        self.granted += items

    def give_up(self) -> None:
        self.given_up += 1

    def emit(self, *items: object) -> None:
        assert self.job is not None
        for item in items:
            self.job.emit(item)

    def finish(self, error: Exception | None = None) -> None:
        assert self.job is not None
        self.pool.finished(self.job, Outcome(error=error))


async def test_each_item_arrives_when_it_is_yielded() -> None:
    worker = ScriptedWorker()
    items = worker.iterate()
    for number in range(3):
        taking = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        assert not taking.done()
        await in_thread(worker.emit, number, name="a-worker")
        assert await taking == number
    worker.finish()
    assert [item async for item in items] == []


async def test_what_was_yielded_comes_before_the_end() -> None:
    worker = ScriptedWorker()
    items = worker.iterate()
    worker.emit(1, 2, 3)
    worker.finish()
    assert [item async for item in items] == [1, 2, 3]
    assert not worker.given_up
    with pytest.raises(StopAsyncIteration):
        await anext(items)


async def test_what_was_yielded_comes_before_a_failure() -> None:
    worker = ScriptedWorker()
    items = worker.iterate()
    worker.emit(1, 2)
    worker.finish(LookupError("no more"))
    assert (await anext(items), await anext(items)) == (1, 2)
    with pytest.raises(LookupError):
        await anext(items)
    with pytest.raises(StopAsyncIteration):
        await anext(items)


async def test_and_before_the_deadline_is_told() -> None:
    worker = ScriptedWorker(deadline=0.02)
    items = worker.iterate()
    worker.emit(1)
    await until(lambda: worker.given_up)
    worker.emit("too late")
    assert await anext(items) == 1
    with pytest.raises(TooSlow):
        await anext(items)
    await in_thread(worker.emit, "much too late", name="a-worker")
    with pytest.raises(StopAsyncIteration):
        await anext(items)


async def test_many_at_once_wake_the_loop_once(monkeypatch: pytest.MonkeyPatch) -> None:
    posted: list[Callable[..., object]] = []
    post = jobs.post

    def counting(loop: asyncio.AbstractEventLoop, call: Callable[..., object]) -> None:
        posted.append(call)
        post(loop, call)

    monkeypatch.setattr(jobs, "post", counting)
    worker = ScriptedWorker()
    items = worker.iterate()
    worker.emit(*range(20))
    assert [await anext(items) for _ in range(20)] == list(range(20))
    assert len(posted) == 1
    worker.emit(20)
    assert await anext(items) == 20
    assert len(posted) == 2
    await items.aclose()


async def test_the_worker_goes_on_when_half_are_taken() -> None:
    worker = ScriptedWorker()
    items = worker.iterate()
    worker.emit(*range(ITEMS_HELD))
    for _ in range(ITEMS_HELD // 2 - 1):
        await anext(items)
    assert not worker.granted
    await anext(items)
    assert worker.granted == ITEMS_HELD // 2
    worker.finish()
    assert len([item async for item in items]) == ITEMS_HELD // 2
    assert worker.granted == ITEMS_HELD // 2  # nobody is there to be told


async def test_leaving_the_loop_ends_it() -> None:
    worker = ScriptedWorker()
    gc.disable()  # it must not take the collector
    try:
        iterator = worker.iterate()
        worker.emit(1, 2)
        async for item in iterator:
            assert item == 1
            break
        del iterator
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert worker.given_up == 1
    finally:
        gc.enable()


async def test_an_exception_in_the_loop_ends_it() -> None:
    worker = ScriptedWorker()

    async def client() -> None:
        iterator = worker.iterate()
        worker.emit(1)
        async for _ in iterator:
            del iterator
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await client()
    await until(lambda: worker.given_up)


async def test_one_that_nobody_ever_asked_ends_too() -> None:
    worker = ScriptedWorker()
    worker.iterate()
    await until(lambda: worker.given_up)


async def test_dropped_on_another_thread() -> None:
    worker = ScriptedWorker()
    held = [worker.iterate()]
    await in_thread(held.clear, name="a-collector")
    await until(lambda: worker.given_up)


async def test_closing_ends_it() -> None:
    worker = ScriptedWorker()
    async with aclosing(worker.iterate()) as items:
        worker.emit(1, 2)
        assert await anext(items) == 1
    assert worker.given_up == 1
    await in_thread(worker.emit, 3, name="a-worker")
    with pytest.raises(StopAsyncIteration):
        await anext(items)
    await items.aclose()
    assert worker.given_up == 1


async def test_closing_after_the_end_is_nothing() -> None:
    worker = ScriptedWorker()
    async with aclosing(worker.iterate()) as items:
        worker.finish()
        assert [item async for item in items] == []
    assert not worker.given_up


async def test_who_waits_is_told_when_it_is_closed() -> None:
    worker = ScriptedWorker()
    items = worker.iterate()
    taking = asyncio.ensure_future(anext(items, "the end"))
    await asyncio.sleep(0)
    await items.aclose()
    assert await taking == "the end"


async def test_cancelling_who_waits_ends_it() -> None:
    worker = ScriptedWorker()
    items = worker.iterate()
    taking = asyncio.ensure_future(anext(items))
    await asyncio.sleep(0)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert worker.given_up == 1
    with pytest.raises(StopAsyncIteration):
        await anext(items)


async def test_two_tasks_at_once() -> None:
    worker = ScriptedWorker()
    items = worker.iterate()
    taking = asyncio.ensure_future(anext(items))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="only one may wait at a time"):
        await anext(items)
    worker.emit(1)
    assert await taking == 1
    await items.aclose()


async def test_a_failure_holds_nothing_that_is_not_needed() -> None:
    class Marked(Exception):
        pass

    worker = ScriptedWorker()
    items = worker.iterate()
    error: Exception | None = Marked()
    marked = weakref.ref(error)
    worker.finish(error)
    error = None
    gc.disable()
    try:
        with pytest.raises(Marked) as caught:
            await anext(items)
        del caught
        assert marked() is None
    finally:
        gc.enable()
