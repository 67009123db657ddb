"""storage.file_threads: threads that are told to stop, and trees that are read-only."""

from __future__ import annotations

import asyncio
import errno
import subprocess
import sys
import threading

import pytest

from partway.gateway.storage import file_threads
from partway.gateway.storage.file_threads import (
    BoundedThreads,
    NoThreadFree,
    Wanted,
    WorkStopped,
    WritingThreads,
    make_read_only,
    on_thread,
    remove_tree,
)
from partway.gateway.storage.limits import WORK_STOP_TIMEOUT
from partway.gateway.timing.clock import LoopClock
from tests.conftest import ROOT
from tests.gateway.fleet.waiting import eventually
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("anyio_backend")


async def test_work_is_done_on_another_thread():
    assert await on_thread(LoopClock(), lambda _: threading.get_ident()) != threading.get_ident()


async def test_what_it_raises_is_raised():
    def work(_: Wanted) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await on_thread(LoopClock(), work)


async def test_whoever_is_cancelled_waits_until_it_has_stopped():
    begun, ended = threading.Event(), threading.Event()

    def work(wanted: Wanted) -> None:
        begun.set()
        try:
            while True:
                wanted.check()
        except WorkStopped:
            ended.set()
            raise

    task = asyncio.create_task(on_thread(LoopClock(), work))
    assert await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_a_thread_that_hangs_is_left_behind():
    begun, go_on, clock = threading.Event(), threading.Event(), FakeClock()

    def work(wanted: Wanted) -> None:
        begun.set()
        go_on.wait(30)
        wanted.check()

    task = asyncio.create_task(on_thread(clock, work))
    assert await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    await asyncio.sleep(0)  # it hears of it, and waits
    assert not task.done()
    clock.advance(WORK_STOP_TIMEOUT)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not go_on.is_set()
    go_on.set()


@pytest.mark.parametrize("how", ["it takes too long", "cancelled once more"])
async def test_the_end_of_a_thread_that_was_left_behind_is_told(how):
    begun, go_on, clock = threading.Event(), threading.Event(), FakeClock()
    threads = WritingThreads(clock)

    def work(_: Wanted) -> None:
        begun.set()
        go_on.wait(30)

    task = asyncio.create_task(threads.work(work))
    assert await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    await asyncio.sleep(0)
    if how == "cancelled once more":
        task.cancel()
    else:
        clock.advance(WORK_STOP_TIMEOUT)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert threads.are_at_work
    go_on.set()
    async with asyncio.timeout(10):
        await threads.ended()
    assert not threads.are_at_work


async def test_threads_that_have_ended_are_not_at_work():
    threads = WritingThreads(LoopClock())
    assert await threads.work(lambda _: 1) == 1
    await threads.ended()
    assert not threads.are_at_work


_HANGS = """
import asyncio, os, sys
import uvloop
from partway.gateway.timing.clock import LoopClock
from partway.gateway.storage import file_threads

async def main():
    file_threads.WORK_STOP_TIMEOUT = 0.01
    nothing_comes, _ = os.pipe()
    work = file_threads.on_thread(LoopClock(), lambda _: os.read(nothing_comes, 1))
    try:
        async with asyncio.timeout(0.01):
            await work
    except TimeoutError:
        print("left behind")

with asyncio.Runner(loop_factory=eval(sys.argv[1])) as runner:
    runner.run(main())
"""


@pytest.mark.parametrize("loop", ["None", "uvloop.new_event_loop"])
def test_a_thread_that_hangs_keeps_no_process_from_ending(loop):
    program = [sys.executable, "-B", "-c", _HANGS, loop]
    ended = subprocess.run(program, capture_output=True, timeout=30, cwd=ROOT, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"left behind\n", b"")


async def test_threads_that_hang_hold_up_nobody():
    go_on = threading.Event()
    hanging = [
        asyncio.create_task(on_thread(LoopClock(), lambda _: go_on.wait(30))) for _ in range(40)
    ]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(20):
            assert await on_thread(LoopClock(), lambda _: 1) == 1
            assert await asyncio.to_thread(lambda: 2) == 2
    finally:
        go_on.set()
    assert all(await asyncio.gather(*hanging))


async def test_there_are_only_so_many_threads(monkeypatch):
    monkeypatch.setattr(file_threads, "_threads", threading.BoundedSemaphore(1))
    begun, go_on = threading.Event(), threading.Event()

    def work(_: Wanted) -> None:
        begun.set()
        go_on.wait(30)

    first = asyncio.create_task(on_thread(LoopClock(), work))
    assert await asyncio.to_thread(begun.wait, 10)
    with pytest.raises(BlockingIOError, match="the limit of threads that work on files"):
        await on_thread(LoopClock(), work)
    go_on.set()
    await first
    await on_thread(LoopClock(), work)


async def test_who_brings_slots_takes_no_others(monkeypatch):
    monkeypatch.setattr(file_threads, "_threads", threading.BoundedSemaphore(1))
    own, go_on = threading.BoundedSemaphore(1), threading.Event()
    held = asyncio.create_task(on_thread(LoopClock(), lambda _: go_on.wait(30), own))
    await asyncio.sleep(0)
    assert await on_thread(LoopClock(), lambda _: 1) == 1
    with pytest.raises(BlockingIOError, match="the limit of threads that work on files"):
        await on_thread(LoopClock(), lambda _: 2, own)
    go_on.set()
    assert await held
    assert await on_thread(LoopClock(), lambda _: 2, own) == 2


async def test_a_system_that_gives_no_more_threads(monkeypatch):
    def refuses(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(file_threads, "_threads", threading.BoundedSemaphore(1))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuses)
        with pytest.raises(BlockingIOError, match="can't start new thread"):
            await on_thread(LoopClock(), lambda _: None)
    assert await on_thread(LoopClock(), lambda _: 1) == 1


def test_a_tree_that_may_not_be_written_to_is_removed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir(0o555)
    top = tmp_path / "top"
    inner = top / "inner"
    inner.mkdir(parents=True)
    (inner / "file").touch(0o444)
    (inner / "link").symlink_to(outside)
    make_read_only([inner, top], Wanted())
    assert [each.stat().st_mode & 0o777 for each in (top, inner)] == [0o555, 0o555]
    remove_tree(top)
    assert not top.exists()
    assert outside.stat().st_mode & 0o777 == 0o555  # links are removed, and not followed


def test_a_file_a_link_and_nothing_are_removed(tmp_path):
    (tmp_path / "file").touch(0o444)
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link", "nothing"):
        remove_tree(tmp_path / name)
    assert [*tmp_path.iterdir()] == []


# --- A few threads at a time -------------------------------------------------------------------


@pytest.mark.usefixtures("no_leaks")
async def test_more_work_than_threads_waits_for_a_free_one():
    threads = BoundedThreads(LoopClock(), 2)
    at_work, most, lock = 0, 0, threading.Lock()

    def work(number):
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        with lock:
            at_work -= 1
        return number

    asked = (threads.run(30, lambda _, n=n: work(n)) for n in range(20))
    assert await asyncio.gather(*asked) == list(range(20))
    assert most <= 2


@pytest.mark.usefixtures("no_leaks")
async def test_a_thread_that_hangs_has_its_time_and_keeps_its_place():
    clock, go_on, begun = FakeClock(), threading.Event(), threading.Event()
    threads = BoundedThreads(clock, 1)

    def hang(_):
        begun.set()
        go_on.wait(30)

    hanging = asyncio.create_task(threads.run(10, hang))
    await eventually(begun.is_set)
    clock.advance(10)
    await eventually(lambda: len(clock.armed) == 1)  # for the thread to see that it is not wanted
    clock.advance(10)
    with pytest.raises(OSError, match="has not answered for 10 s") as caught:
        await hanging
    assert caught.value.errno == errno.EIO
    with pytest.raises(NoThreadFree, match="all of them hang"):
        await threads.run(10, lambda _: 1)
    go_on.set()

    async def again():
        try:
            return await threads.run(10, lambda _: 1)
        except NoThreadFree:
            return None

    while await again() is None:  # noqa: ASYNC110 (nothing tells of a thread's end)
        await asyncio.sleep(0)


@pytest.mark.usefixtures("no_leaks")
async def test_a_thread_that_is_not_free_in_time_is_told_from_work_that_fails():
    clock, go_on, begun = FakeClock(), threading.Event(), threading.Event()
    threads = BoundedThreads(clock, 1)

    def work(_):
        begun.set()
        go_on.wait(30)

    first = asyncio.create_task(threads.run(20, work))
    await eventually(begun.is_set)
    second = asyncio.create_task(threads.run(10, lambda _: 1))
    await eventually(lambda: len(clock.armed) == 2)
    clock.advance(10)
    with pytest.raises(NoThreadFree, match="none has ended for 10 s"):
        await second
    go_on.set()
    await first
    assert await threads.run(10, lambda _: 1) == 1


@pytest.mark.usefixtures("no_leaks")
async def test_what_work_on_one_of_them_raises_is_raised():
    threads = BoundedThreads(LoopClock(), 1)

    def fail(_):
        raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        await threads.run(10, fail)
