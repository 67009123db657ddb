"""Worker processes, one after the other: loading, replacing, the end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import pytest

from partway.container import Busy, ModelError, Processes, WorkerDied, Workers
from partway.container.limits import RESTART_DELAY_LIMIT
from partway.container.workers import process_workers
from partway.container.workers.child import Origin
from partway.container.workers.job_execution import Outcome
from partway.container.workers.jobs import Call, Job
from partway.container.workers.pool import Pool
from partway.container.workers.process_workers import ProcessWorker
from tests.container.wire import PATIENCE, until
from tests.container.workers.models import ENDLESS, Picky, Worked
from tests.container.workers.processes import eventually, left_over, loads, working

# --- Loading -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "order", "arrives", "complaint"),
    [
        (2, "fail", FileNotFoundError, "the weights are not there"),
        (1, "exit", RuntimeError, "SystemExit: no weights"),
        (1, "die", WorkerDied, "the worker process ended with status 9"),
    ],
)
async def test_a_load_that_fails(
    tmp_path: Path, count: int, order: str, arrives: type[Exception], complaint: str
) -> None:
    (tmp_path / "order").write_text(order)
    with pytest.raises(arrives, match=complaint):
        async with working(tmp_path, Processes(count=count)):
            raise AssertionError("it has been loaded")


async def test_a_model_that_cannot_be_made(tmp_path: Path) -> None:
    model = Picky(5)
    model.runs_on = Processes()  # type: ignore[misc]  # this test's
    workers = Workers(model)
    with pytest.raises(TypeError, match="size"):
        await workers.start(tmp_path)
    await workers.stop()


async def test_a_load_that_hangs_is_killed(tmp_path: Path) -> None:
    (tmp_path / "order").write_text("hang")
    model = Worked()
    model.runs_on = Processes()  # type: ignore[misc]  # this test's
    workers = Workers(model)
    starting = asyncio.ensure_future(workers.start(tmp_path))
    await eventually((tmp_path / "loads").exists)
    assert workers.trouble() == "no worker process is up: the model is loading"
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    async with asyncio.timeout(PATIENCE):
        await workers.stop()
    assert not left_over(tmp_path)


async def test_an_end_before_it_has_begun_to_load(tmp_path: Path) -> None:
    model = Worked()
    model.runs_on = Processes()  # type: ignore[misc]  # this test's
    workers = Workers(model)
    starting = asyncio.ensure_future(workers.start(tmp_path))
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        await workers.stop()
    with pytest.raises(WorkerDied):
        await starting
    assert not (tmp_path / "loads").exists()


async def test_a_replacement_that_cannot_load(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with working(tmp_path, Processes(queue=0)) as (workers, model):
        (tmp_path / "order").write_text("fail")
        with pytest.raises(WorkerDied):
            await workers.run(model.die, signal.SIGKILL)
        with pytest.raises(Busy):
            await workers.run(model.pid)
        await eventually(lambda: len(loads(tmp_path)) == 3)  # again and again
        assert workers.trouble() == ("no worker process is up: the model failed: FileNotFoundError")
        (tmp_path / "order").unlink()
        await eventually(lambda: workers.trouble() is None)
        assert await workers.run(model.pid) in loads(tmp_path)
    assert "FileNotFoundError: the weights are not there" in caplog.text
    assert "In the worker process" in caplog.text


# --- One after the other -------------------------------------------------------------------------


class ScriptedProcess:
    """Stands in for a worker process: it does what the test says."""

    started: ClassVar[list[float]]
    refused: ClassVar[bool]
    last: ClassVar[ScriptedProcess]

    def __init__(self, name: str, origin: object, owner: object) -> None:
        self.pid = 1
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.begun: list[Job] = []

    def start(self) -> None:
        self.started.append(asyncio.get_running_loop().time())
        if self.refused:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        ScriptedProcess.last = self

    def begin(self, job: Job) -> None:
        self.begun.append(job)

    def give_up(self) -> None:
        """It does not care."""

    def kill(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


@pytest.fixture
async def place(
    anyio_backend: object, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Pool, ProcessWorker]]:
    """A place for processes of which the first has just come up."""
    monkeypatch.setattr(ScriptedProcess, "started", [], raising=False)
    monkeypatch.setattr(ScriptedProcess, "refused", False, raising=False)
    monkeypatch.setattr(process_workers, "ChildProcess", ScriptedProcess)
    pool = Pool(5, ENDLESS)
    worker = ProcessWorker("x", Origin("m", "M", Path(), 0, "text", b""), pool, 1.0, 0.02)
    worker.start()
    worker.came_up()
    pool.open()
    yield pool, worker
    worker.end()


Place = tuple[Pool, ProcessWorker]


async def test_replacements_that_die_come_ever_later(place: Place) -> None:
    _, worker = place
    started = ScriptedProcess.started
    for number in range(2, 6):
        worker.ended(None, WorkerDied("x"))
        await until(lambda number=number: len(started) == number)
    waits = [later - sooner for sooner, later in pairwise(started)]
    # The clock of the loop ticks in milliseconds.
    assert all(wait >= 0.02 * 2**power - 0.002 for power, wait in enumerate(waits))


async def test_they_come_however_many_have_died(place: Place) -> None:
    _, worker = place
    for _ in range(2000):
        worker.ended(None, WorkerDied("x"))
    assert worker._timer is not None
    left = worker._timer.when() - asyncio.get_running_loop().time()
    assert left == pytest.approx(RESTART_DELAY_LIMIT, abs=1)


async def test_one_that_has_begun_a_job_is_replaced_at_once(place: Place) -> None:
    pool, worker = place
    for died in (False, True):
        job = Call(print, (), {})
        pool.submit(job)
        before = len(ScriptedProcess.started)
        if died:
            worker.ended(job, WorkerDied("x"))
            with pytest.raises(WorkerDied):
                await job.result
        else:
            worker.finished(job, Outcome())
            worker.ended(None, WorkerDied("x"))
        assert len(ScriptedProcess.started) == before + 1
        worker.came_up()


async def test_the_system_gives_no_more_processes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, worker = place
    monkeypatch.setattr(ScriptedProcess, "refused", True)
    worker.ended(None, WorkerDied("x"))
    await until(lambda: len(ScriptedProcess.started) == 3)
    assert worker.down == "the model failed: BlockingIOError"
    monkeypatch.setattr(ScriptedProcess, "refused", False)
    await until(lambda: len(ScriptedProcess.started) == 4)
    worker.came_up()
    assert worker.down is None


async def test_a_job_on_its_way_to_a_process_that_dies_is_done_by_the_next(place: Place) -> None:
    pool, worker = place
    job = Call(print, (), {})
    pool.submit(job)
    assert ScriptedProcess.last.begun == [job]
    worker.ended(None, WorkerDied("x"))  # which was at no job
    await until(lambda: len(ScriptedProcess.started) == 2)
    worker.came_up()
    assert ScriptedProcess.last.begun == [job]
    worker.finished(job, Outcome(value=5))
    assert await job.result == 5


async def test_one_that_is_being_killed_gets_no_job(place: Place) -> None:
    pool, worker = place
    worker._grace = 0.0
    first, second = Call(print, (), {}), Call(print, (), {})
    pool.submit(first)
    pool.submit(second)
    pool.give_up(first)
    await until(ScriptedProcess.last.ended.done)
    worker.finished(first, Outcome())  # after all
    assert ScriptedProcess.last.begun == [first]
    worker.ended(None, WorkerDied("killed"))
    worker.came_up()
    assert ScriptedProcess.last.begun == [second]


# --- The end -------------------------------------------------------------------------------------


async def test_after_the_end_none_is_replaced(place: Place) -> None:
    pool, worker = place
    job = Call(print, (), {})
    pool.submit(job)
    assert worker.end() is ScriptedProcess.last.ended
    worker.ended(job, WorkerDied("killed"))
    assert len(ScriptedProcess.started) == 1
    assert worker.end() is None


async def test_the_end_waits_for_nothing(tmp_path: Path) -> None:
    async with working(tmp_path) as (workers, model):
        computed = asyncio.ensure_future(workers.run(model.hang, tmp_path / "sign"))
        waiting = asyncio.ensure_future(workers.run(model.hang, tmp_path / "no sign"))
        await eventually((tmp_path / "sign").exists)
        async with asyncio.timeout(PATIENCE):
            await workers.stop()
            await workers.stop()
        for job in (computed, waiting):
            with pytest.raises(ModelError, match="the container is stopping"):
                await job
        with pytest.raises(Busy, match="the container is stopping"):
            await workers.run(model.pid)
    assert len(loads(tmp_path)) == 1
