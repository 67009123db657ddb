"""A model on threads, through :class:`Workers`."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from partway.container import Busy, Model, ModelError, Threads, TooSlow, Workers
from partway.container.limits import ITEMS_HELD
from tests.conftest import ROOT
from tests.container.wire import PATIENCE, until
from tests.container.workers.models import ENDLESS

pytestmark = pytest.mark.usefixtures("no_leaks")


class Threaded(Model):
    """Computes on threads, for as long as the test wants.

    Attributes:
        go_on: what :meth:`hold` waits for.
        holding: how many wait for it, or have.
    """

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.holding = 0
        self.loaded: tuple[Path, str] | None = None
        self.produced = 0
        self.closed_on: str | None = None

    def load(self, model_dir: Path) -> None:
        self.loaded = (model_dir, threading.current_thread().name)

    def where(self) -> str:
        return threading.current_thread().name

    def hold(self, value: object = None) -> object:
        self.holding += 1
        assert self.go_on.wait(ENDLESS)
        return value

    def fail(self, error: BaseException) -> None:
        raise error

    def produce(self) -> Iterator[int]:
        try:
            while True:
                self.produced += 1
                yield self.produced
        finally:
            self.closed_on = threading.current_thread().name

    def produce_and_hold(self) -> Iterator[int]:
        try:
            yield 1
            self.hold()
            yield 2
        finally:
            self.closed_on = threading.current_thread().name


@asynccontextmanager
async def working(
    settings: Threads | None = None, model: Threaded | None = None, **limits: float
) -> AsyncIterator[tuple[Workers, Threaded]]:
    model = model or Threaded()
    model.runs_on = settings  # type: ignore[misc]  # each test has its own
    workers = Workers(model, **limits)
    try:
        async with asyncio.timeout(PATIENCE):
            await workers.start(Path("a/model"))
            yield workers, model
    finally:
        model.go_on.set()
        await workers.stop()


# --- Loading -------------------------------------------------------------------------------------


async def test_the_model_is_loaded_where_its_jobs_run() -> None:
    async with working() as (workers, model):
        assert model.loaded == (Path("a/model"), "partway-worker-0")
        assert await workers.run(model.where) == "partway-worker-0"
        assert workers.trouble() is None


@pytest.mark.parametrize(
    ("raised", "arrives"), [(OSError("no weights"), OSError), (SystemExit(1), RuntimeError)]
)
async def test_a_load_that_fails(raised: BaseException, arrives: type[Exception]) -> None:
    class Unloadable(Threaded):
        def load(self, model_dir: Path) -> None:
            raise raised

    workers = Workers(Unloadable())
    with pytest.raises(arrives) as caught:
        await workers.start(Path("x"))
    assert raised in (caught.value, caught.value.__cause__)
    with pytest.raises(Busy, match="stopping"):
        await workers.run(print)
    await workers.stop()


async def test_a_load_that_hangs_is_left() -> None:
    class Hanging(Threaded):
        def load(self, model_dir: Path) -> None:
            self.hold()

    model = Hanging()
    workers = Workers(model)
    starting = asyncio.ensure_future(workers.start(Path("x")))
    await until(lambda: model.holding)
    with pytest.raises(Busy, match="the model is loading"):
        await workers.run(model.where)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    async with asyncio.timeout(PATIENCE):
        await workers.stop()
    model.go_on.set()


# --- Results and failures ------------------------------------------------------------------------


async def test_arguments_go_there_and_results_come_back() -> None:
    def method(*args: object, **kwargs: object) -> tuple[object, object]:
        return args, kwargs

    async with working() as (workers, _):
        assert await workers.run(method, 1, "a", method=2, self=3) == (
            (1, "a"),
            {"method": 2, "self": 3},
        )


async def test_an_exception_comes_back_as_itself() -> None:
    error = ModelError("no", code=4001)
    async with working() as (workers, model):
        with pytest.raises(ModelError) as caught:
            await workers.run(model.fail, error)
        assert caught.value is error
        assert traceback.extract_tb(error.__traceback__)[-1].name == "fail"


@pytest.mark.parametrize(
    "raised",
    [SystemExit(1), KeyboardInterrupt(), StopIteration(), asyncio.CancelledError()],
    ids=lambda error: type(error).__name__,
)
async def test_a_worker_outlives_what_its_jobs_raise(raised: BaseException) -> None:
    async with working() as (workers, model):
        with pytest.raises(RuntimeError, match=type(raised).__name__):
            await workers.run(model.fail, raised)
        with pytest.raises(MemoryError):
            await workers.run(model.fail, MemoryError())
        assert await workers.run(model.where) == "partway-worker-0"


async def test_two_at_a_time() -> None:
    async with working(Threads(count=2)) as (workers, model):
        both = asyncio.gather(workers.run(model.hold, 1), workers.run(model.hold, 2))
        await until(lambda: model.holding == 2)
        model.go_on.set()
        assert await both == [1, 2]


async def test_an_idle_worker_holds_nothing() -> None:
    class Big:
        def __init__(self) -> None:
            self.me = weakref.ref(self)

    def fails(value: Big) -> None:
        raise LookupError

    async with working() as (workers, _):
        gc.disable()  # it must not take the collector
        try:
            big = Big()
            me = big.me
            assert await workers.run(lambda value: value, big) is big
            with pytest.raises(LookupError):
                await workers.run(fails, big)
            del big
            await until(lambda: me() is None)
        finally:
            gc.enable()


# --- The queue -----------------------------------------------------------------------------------


async def test_more_than_may_wait_are_refused_at_once() -> None:
    async with working(Threads(queue=2)) as (workers, model):
        jobs = [asyncio.ensure_future(workers.run(model.hold, number)) for number in range(10_000)]
        await until(lambda: sum(job.done() for job in jobs) == 10_000 - 3)
        reasons = {str(job.exception()) for job in jobs if job.done()}
        assert reasons == {"every worker is busy, and 2 jobs wait already"}
        with pytest.raises(Busy):
            workers.iterate(model.produce)
        model.go_on.set()
        assert await asyncio.gather(*jobs[:3]) == [0, 1, 2]


async def test_cancelling_a_job_that_waits_frees_its_place() -> None:
    async with working(Threads(queue=1)) as (workers, model):
        first = asyncio.ensure_future(workers.run(model.hold, 1))
        await until(lambda: model.holding)
        second = asyncio.ensure_future(workers.run(model.hold, 2))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        third = asyncio.ensure_future(workers.run(model.hold, 3))
        await asyncio.sleep(0)
        model.go_on.set()
        assert await asyncio.gather(first, third) == [1, 3]
        assert model.holding == 2


async def test_cancelling_a_job_that_is_computed_leaves_the_worker_occupied() -> None:
    async with working(Threads(queue=1)) as (workers, model):
        first = asyncio.ensure_future(workers.run(model.hold, 1))
        await until(lambda: model.holding)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.ensure_future(workers.run(model.hold, 2))
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await workers.run(model.hold, 3)
        assert model.holding == 1
        model.go_on.set()
        assert await second == 2


async def test_the_deadline_while_it_waits_and_while_it_is_computed() -> None:
    async with working(Threads(deadline=0.05)) as (workers, model):
        first = asyncio.ensure_future(workers.run(model.hold))
        second = asyncio.ensure_future(workers.run(model.hold))
        with pytest.raises(TooSlow):
            await first
        with pytest.raises(Busy, match="no worker was free"):
            await second
        assert model.holding == 1


# --- Generators ----------------------------------------------------------------------------------


async def test_items_arrive_when_they_are_yielded() -> None:
    async with working() as (workers, model):
        items = workers.iterate(model.produce_and_hold)
        assert await anext(items) == 1
        await until(lambda: model.holding)
        model.go_on.set()
        assert [item async for item in items] == [2]
        assert model.closed_on == "partway-worker-0"


async def test_a_failure_comes_behind_the_items() -> None:
    def fails(items: int) -> Iterator[int]:
        yield from range(items)
        raise LookupError("no more")

    async with working() as (workers, _):
        items = workers.iterate(fails, 100)
        assert [await anext(items) for _ in range(100)] == list(range(100))
        with pytest.raises(LookupError, match="no more"):
            await anext(items)


async def test_a_generator_waits_for_a_slow_client() -> None:
    async with working(Threads(count=2)) as (workers, model):
        items = workers.iterate(model.produce)
        await until(lambda: model.produced == ITEMS_HELD)
        assert await workers.run(model.where) == "partway-worker-1"  # time for it to go on
        assert model.produced == ITEMS_HELD
        for number in range(3 * ITEMS_HELD):
            assert await anext(items) == number + 1
        assert model.produced <= 4 * ITEMS_HELD
        await items.aclose()
        await until(lambda: model.closed_on)
        assert model.closed_on == "partway-worker-0"


async def test_leaving_the_loop_closes_the_generator() -> None:
    async with working() as (workers, model):
        async for item in workers.iterate(model.produce):
            if item == 5:
                break
        await until(lambda: model.closed_on)
        assert await workers.run(model.where) == model.closed_on


async def test_closing_it_closes_the_generator() -> None:
    async with working() as (workers, model):
        async with aclosing(workers.iterate(model.produce)) as items:
            assert await anext(items) == 1
        await until(lambda: model.closed_on)
        assert model.produced <= ITEMS_HELD


async def test_cancelling_its_client_closes_the_generator_at_its_next_item() -> None:
    async with working() as (workers, model):

        async def client() -> None:
            async for _ in workers.iterate(model.produce_and_hold):
                pass

        task = asyncio.ensure_future(client())
        await until(lambda: model.holding)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert model.closed_on is None  # a thread cannot be interrupted
        model.go_on.set()
        assert await workers.run(model.where) == "partway-worker-0"
        assert model.closed_on == "partway-worker-0"


async def test_the_deadline_of_a_generator() -> None:
    async with working(Threads(deadline=0.05)) as (workers, model):
        with pytest.raises(TooSlow):
            async for _ in workers.iterate(model.produce):
                pass
        await until(lambda: model.closed_on)


async def test_an_iterable_will_do() -> None:
    async with working() as (workers, _):
        assert [item async for item in workers.iterate(sorted, [2, 1])] == [1, 2]


async def test_what_cannot_be_called_on_a_worker() -> None:
    async def coroutine() -> None: ...

    async def async_generator() -> AsyncIterator[int]:
        yield 1

    async with working() as (workers, model):
        call: Any
        for call in (coroutine, async_generator):
            with pytest.raises(TypeError, match="is async"):
                await workers.run(call)
            with pytest.raises(TypeError, match="is async"):
                workers.iterate(call)
        with pytest.raises(TypeError, match=r"is a generator: it must be called by iterate\(\)"):
            await workers.run(model.produce)
        with pytest.raises(TypeError, match="returned int; it must be a generator"):
            await anext(workers.iterate(id, model))  # type: ignore[arg-type]  # what is tested


# --- Hanging, and the end ------------------------------------------------------------------------


async def test_when_every_worker_hangs_that_is_trouble() -> None:
    settings = Threads(count=2, deadline=0.02)
    async with working(settings, hung_after=0.5) as (workers, model):
        with pytest.raises(TooSlow):
            await workers.run(model.hold)
        await asyncio.sleep(0.52)
        assert workers.trouble() is None  # there is another one
        with pytest.raises(TooSlow):
            await workers.run(model.hold)
        assert workers.trouble() is None  # which has only begun
        await until(workers.trouble)
        assert workers.trouble() == (
            "every worker has been busy for more than 0.5 s with an abandoned job"
        )
        model.go_on.set()
        await until(lambda: workers.trouble() is None)
        assert await workers.run(model.hold, 5) == 5


async def test_what_somebody_waits_for_is_no_trouble() -> None:
    async with working(hung_after=0.0) as (workers, model):
        job = asyncio.ensure_future(workers.run(model.hold))
        await until(lambda: model.holding)
        assert workers.trouble() is None
        model.go_on.set()
        await job


async def test_the_end_does_not_wait_for_a_thread() -> None:
    async with working() as (workers, model):
        computed = asyncio.ensure_future(workers.run(model.hold))
        waiting = asyncio.ensure_future(workers.run(model.hold))
        await until(lambda: model.holding)
        async with asyncio.timeout(PATIENCE):
            await workers.stop()
            await workers.stop()
        for job in (computed, waiting):
            with pytest.raises(ModelError, match="the container is stopping"):
                await job
        with pytest.raises(Busy, match="the container is stopping"):
            await workers.run(model.hold)


async def test_at_the_end_threads_are_gone() -> None:
    before = set(threading.enumerate())  # some of other tests may end meanwhile
    async with working(Threads(count=3)) as (workers, model):
        items = workers.iterate(model.produce)
        assert await anext(items) == 1
        own = set(threading.enumerate()) - before
        assert len(own) == 3
    await until(lambda: not any(thread.is_alive() for thread in own))
    assert model.closed_on is not None


async def test_an_end_without_a_beginning() -> None:
    await Workers(Threaded()).stop()


def test_a_process_ends_whatever_hangs_in_it() -> None:
    script = """
import asyncio, pathlib, threading
from partway.container import Model, Workers

class Hanging(Model):
    def hang(self):
        print("hangs", flush=True)
        threading.Event().wait()

async def main():
    model = Hanging()
    workers = Workers(model)
    await workers.start(pathlib.Path())
    hanging = asyncio.ensure_future(workers.run(model.hang))
    done, _ = await asyncio.wait((hanging,), timeout=0.1)
    assert not done

asyncio.run(main())
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, timeout=40, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"hangs\n", b"")
