"""partway.gateway.fleet.file_work: threads that are told to stop, and trees that are read-only."""

from __future__ import annotations

import asyncio
import threading

import pytest

from partway.gateway.clock import LoopClock
from partway.gateway.fleet.file_work import (
    Wanted,
    WorkStopped,
    make_read_only,
    on_thread,
    remove_tree,
)
from partway.gateway.limits import MODEL_DATA_STOP_TIMEOUT
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
    clock.advance(MODEL_DATA_STOP_TIMEOUT)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not go_on.is_set()
    go_on.set()


def test_a_tree_that_may_not_be_written_to_is_removed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir(0o555)
    top = tmp_path / "top"
    inner = top / "inner"
    inner.mkdir(parents=True)
    (inner / "file").touch(0o444)
    (inner / "link").symlink_to(outside)
    make_read_only([top, inner])
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
