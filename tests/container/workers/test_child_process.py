"""Jobs in worker processes: what crosses, who leaves, what dies."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from partway.container import Busy, Model, ModelError, Processes, TooSlow, WorkerDied, Workers
from partway.container.limits import ITEMS_HELD
from tests.conftest import ROOT
from tests.container.wire import PATIENCE
from tests.container.workers.models import Quota, Worked
from tests.container.workers.processes import eventually, last, working

Both = tuple[Workers, Worked]
Yields = AsyncIterator[Both]


@pytest.fixture(scope="module")
async def pool(anyio_backend: object, tmp_path_factory: pytest.TempPathFactory) -> Yields:
    """Two processes, for the tests that leave them alive."""
    async with working(tmp_path_factory.mktemp("m"), Processes(count=2)) as both:
        yield both


@pytest.fixture(scope="module")
async def one(anyio_backend: object, tmp_path_factory: pytest.TempPathFactory) -> Yields:
    """One process, for the tests that kill it: the next one waits for its replacement."""
    async with working(tmp_path_factory.mktemp("m"), Processes(queue=1)) as both:
        yield both


# --- What crosses --------------------------------------------------------------------------------


async def test_each_process_has_a_model_of_its_own(pool: Both) -> None:
    workers, model = pool
    loaded = await workers.run(model.who_loaded)
    assert loaded is not None
    pid, thread = loaded
    assert pid != os.getpid()
    assert thread == "MainThread"
    assert model.loaded_by is None


@pytest.mark.parametrize("value", [None, "é", {"a": [1, 2.5, (None, b"\0")]}])
async def test_values_cross(pool: Both, value: object) -> None:
    workers, model = pool
    assert await workers.run(model.same, value=value) == value


async def test_large_values_cross(pool: Both) -> None:
    workers, model = pool
    value = os.urandom(1 << 20) * 5
    assert await workers.run(model.same, value) == value


async def test_items_cross(pool: Both) -> None:
    workers, model = pool
    items = [item async for item in workers.iterate(model.count, 5 * ITEMS_HELD)]
    assert items == list(range(5 * ITEMS_HELD))
    assert [item async for item in workers.iterate(model.plain)] == [1, 2]


async def test_an_item_arrives_when_it_is_yielded(one: Both) -> None:
    workers, model = one
    assert await anext(workers.iterate(model.one_then_compute)) != os.getpid()


async def test_two_at_a_time(pool: Both, tmp_path: Path) -> None:
    workers, model = pool
    first, second = (
        workers.iterate(model.count_and_note, tmp_path / name, 0.01) for name in ("1", "2")
    )
    for number in range(1, 10):
        assert (await anext(first), await anext(second)) == (number, number)


async def test_exceptions_cross(pool: Both) -> None:
    workers, model = pool
    with pytest.raises(LookupError, match="nothing") as caught:
        await workers.run(model.fail, LookupError("nothing"))
    assert "in fail\n    raise error" in caught.value.__notes__[0]
    with pytest.raises(Quota) as quota:
        await workers.run(model.fail_with_quota)
    assert (quota.value.reason, quota.value.code) == ("ann may have 5", 4003)
    assert (quota.value.status, quota.value.limit) == (429, 5)
    with pytest.raises(ModelError, match="of no other process") as local:
        await workers.run(model.fail_locally)
    assert (local.value.code, local.value.status) == (4001, 418)
    with pytest.raises(RuntimeError, match="Fussy: this and that"):
        await workers.run(model.fail_fussily)
    items = workers.iterate(model.count_then_fail, 100)
    assert [await anext(items) for _ in range(100)] == list(range(100))
    with pytest.raises(LookupError, match="no more"):
        await anext(items)


@pytest.mark.parametrize("raised", [SystemExit(1), KeyboardInterrupt(), StopIteration()])
async def test_a_process_outlives_what_its_jobs_raise(pool: Both, raised: BaseException) -> None:
    workers, model = pool
    pids = await _pids(workers, model)
    with pytest.raises(RuntimeError, match=type(raised).__name__):
        await workers.run(model.fail, raised)
    assert await _pids(workers, model) == pids


async def test_out_of_memory_is_that_jobs_alone(pool: Both) -> None:
    workers, model = pool
    pids = await _pids(workers, model)
    with pytest.raises(MemoryError):
        await workers.run(model.starve)
    assert await _pids(workers, model) == pids


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda workers, model: workers.run(model.same, lambda: None), "an argument of same()"),
        (lambda workers, model: workers.run(model.unpicklable), "the result of unpicklable()"),
        (lambda workers, model: workers.run(model.only_there), "the result of only_there()"),
        (
            lambda workers, model: last(workers.iterate(model.mixed, "unpicklable")),
            "an item of mixed()",
        ),
        (
            lambda workers, model: last(workers.iterate(model.mixed, "only there")),
            "an item of mixed()",
        ),
    ],
)
async def test_what_cannot_cross_is_that_jobs_failure(
    pool: Both, call: Callable[..., Any], complaint: str
) -> None:
    workers, model = pool
    pids = await _pids(workers, model)
    with pytest.raises(TypeError) as caught:
        await call(workers, model)
    assert str(caught.value).startswith(f"{complaint} cannot be sent between processes: ")
    assert await _pids(workers, model) == pids


async def test_what_is_no_method_of_the_model(pool: Both) -> None:
    workers, _ = pool
    for other in (len, lambda: None, Worked.pid, Worked().pid):
        with pytest.raises(TypeError, match=r"such as self\.some_method"):
            await workers.run(other)  # type: ignore[arg-type]  # what is tested
        with pytest.raises(TypeError, match=r"such as self\.some_method"):
            workers.iterate(other)  # type: ignore[arg-type]  # what is tested


async def test_a_class_that_cannot_be_imported() -> None:
    class Local(Model):
        runs_on = Processes()

    with pytest.raises(TypeError, match="define it at the top level of a module"):
        Workers(Local())


# --- Leaving, and being late ---------------------------------------------------------------------


async def test_a_generator_is_closed_at_its_next_item(pool: Both, tmp_path: Path) -> None:
    workers, model = pool
    pids = await _pids(workers, model)
    notes = tmp_path / "notes"
    async for item in workers.iterate(model.count_and_note, notes):
        if item == 3:
            break
    await eventually(notes.exists)
    assert await _pids(workers, model) == pids


async def test_a_generator_waits_for_a_slow_client(pool: Both, tmp_path: Path) -> None:
    workers, model = pool
    notes = tmp_path / "notes"
    notes.touch()
    items = workers.iterate(model.count_and_tell, notes)
    assert await anext(items) == 1
    await eventually(lambda: notes.read_text() == str(ITEMS_HELD))
    # If it did not wait, it would come further in that time.
    assert [item async for item in workers.iterate(model.count, 1000)] == list(range(1000))
    assert notes.read_text() == str(ITEMS_HELD)
    assert [await anext(items) for _ in range(ITEMS_HELD)] == list(range(2, ITEMS_HELD + 2))


async def test_a_job_that_goes_on_is_killed(one: Both, tmp_path: Path) -> None:
    workers, model = one
    pid = await workers.run(model.pid)
    hanging = asyncio.ensure_future(workers.run(model.hang, tmp_path / "sign"))
    next_one = asyncio.ensure_future(workers.run(model.pid))
    await eventually((tmp_path / "sign").exists)
    hanging.cancel()
    assert await next_one != pid


async def test_a_job_that_is_late_is_killed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with working(tmp_path, Processes(deadline=0.3)) as (workers, model):
        with pytest.raises(TooSlow):
            await workers.run(model.hang, tmp_path / "sign")
        await eventually(workers.trouble)
        assert workers.trouble() == "no worker process is up: the process is being replaced"
        await eventually(lambda: workers.trouble() is None)
        assert await workers.run(model.add, 1, 2) == 3
    assert "is still busy with an abandoned job: its process is killed" in caplog.text
    assert "SIGKILL" not in caplog.text


async def test_cancelling_a_job_that_waits_kills_nothing(one: Both, tmp_path: Path) -> None:
    workers, model = one
    pid = await workers.run(model.pid)
    items = workers.iterate(model.count, 100)
    waiting = asyncio.ensure_future(workers.run(model.hang, tmp_path / "sign"))
    await asyncio.sleep(0)
    with pytest.raises(Busy):
        await workers.run(model.pid)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    next_one = asyncio.ensure_future(workers.run(model.pid))
    assert await last(items) == 99
    assert await next_one == pid
    assert not (tmp_path / "sign").exists()


async def test_a_process_that_hears_nothing_does_not_keep_the_loop(tmp_path: Path) -> None:
    async with working(tmp_path, Processes(deadline=0.2)) as (workers, model):
        pid = await workers.run(model.pid)
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(TooSlow):
            await workers.run(model.same, bytes(10 << 20))  # more than a pipe takes
        await eventually(lambda: workers.trouble())
        await eventually(lambda: workers.trouble() is None)
        assert await workers.run(model.pid) != pid


# --- Dying ---------------------------------------------------------------------------------------


async def test_a_death_is_that_jobs_failure(
    one: Both, pool: Both, caplog: pytest.LogCaptureFixture
) -> None:
    workers, model = one
    await workers.run(model.pid)
    await _pids(*pool)
    descriptors = _descriptors()
    for death, complaint in (
        (lambda: workers.run(model.die, signal.SIGKILL), "was killed by SIGKILL"),
        (lambda: workers.run(model.crash), "was killed by SIGSEGV"),
        (lambda: workers.run(model.leave, 0), "ended with status 0"),
        (lambda: workers.run(model.leave, 3), "ended with status 3"),
    ):
        pid = await workers.run(model.pid)
        dying = asyncio.ensure_future(death())
        waiting = asyncio.ensure_future(workers.run(model.pid))
        with pytest.raises(WorkerDied) as caught:
            await dying
        assert caught.value.reason == f"the worker process {complaint}"
        assert workers.trouble() == f"no worker process is up: {caught.value.reason}"
        assert f'(process {pid})" reason="{caught.value.reason}"' in caplog.text
        assert await waiting not in (pid, os.getpid())
        assert workers.trouble() is None
    assert _descriptors() <= descriptors


async def test_the_others_go_on(pool: Both, tmp_path: Path) -> None:
    workers, model = pool
    items = workers.iterate(model.count_and_note, tmp_path / "notes", 0.001)
    await anext(items)
    with pytest.raises(WorkerDied):
        await workers.run(model.die, signal.SIGKILL)
    assert workers.trouble() is None
    assert [await anext(items) for _ in range(100)] == list(range(2, 102))


async def test_items_that_were_yielded_come_before_a_death(one: Both) -> None:
    workers, model = one
    items = workers.iterate(model.fork_then_die)
    # The death is seen although a process that it left behind lives.
    left_behind = await anext(items)
    try:
        with pytest.raises(WorkerDied, match="SIGKILL"):
            await anext(items)
    finally:
        os.kill(left_behind, signal.SIGKILL)


async def test_an_idle_process_that_dies_is_replaced(one: Both) -> None:
    workers, model = one
    pid = await workers.run(model.pid)
    os.kill(pid, signal.SIGKILL)
    await eventually(workers.trouble)
    assert await workers.run(model.pid) != pid


async def test_signals_are_left_to_the_parent(one: Both, tmp_path: Path) -> None:
    workers, model = one
    pid = await workers.run(model.pid)
    items = workers.iterate(model.count_and_note, tmp_path / "notes", 0.01)
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(pid, number)
    assert [await anext(items) for _ in range(10)] == list(range(1, 11))
    await items.aclose()
    assert await workers.run(model.pid) == pid


# --- A process and its parent ---------------------------------------------------------------------


SCRIPT = """
import asyncio, pathlib, sys
from partway.container import Processes, Workers
from tests.container.workers.models import Worked

class Mine(Worked):
    runs_on = Processes()

async def main():
    model = Mine()
    workers = Workers(model)
    await workers.start(pathlib.Path(sys.argv[1]))
    items = workers.iterate(model.one_then_compute)
    await anext(items)
    print("computing", flush=True)
    if sys.argv[2] == "stay":
        await anext(items)

if __name__ == "__main__":
    asyncio.run(main())
"""


#: Nothing is flushed that does not flush itself.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""}


@pytest.mark.parametrize("how", ["stay", "go"])
def test_no_process_outlives_its_parent(tmp_path: Path, how: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, str(script), str(tmp_path), how],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"computing\n"
        if how == "stay":
            parent.kill()
        parent.wait(10)
        # The worker process has the other end too: it comes when both are gone.
        assert parent.stdout.read() == b""


def test_what_a_process_says_is_said(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        SCRIPT.replace("items = workers", "await workers.run(model.say, 'hello'); items = workers")
    )
    ended = subprocess.run(
        [sys.executable, str(script), str(tmp_path), "go"],
        env=ENVIRONMENT,
        capture_output=True,
        timeout=40,
        check=True,
    )
    assert ended.stdout == b"hello\ncomputing\n"
    assert b"WARNING a.model" in ended.stderr
    assert re.search(rb" \[\d+\] hello\n\Z", ended.stderr)


# --- Helpers -------------------------------------------------------------------------------------


async def _pids(workers: Workers, model: Worked) -> set[int]:
    """Of both processes."""
    async with asyncio.timeout(PATIENCE):
        pids: set[int] = set()
        while len(pids) < 2:
            pids.update(await asyncio.gather(*(workers.run(model.pid) for _ in range(4))))
    return pids


def _descriptors() -> int:
    """How many files, pipes and sockets are open."""
    return sum(1 for _ in Path("/dev/fd").iterdir())
