"""partway.gateway.storage.file_turns: turns, times, and threads that hang."""

from __future__ import annotations

import asyncio
import errno
import threading

import pytest

from partway.gateway.clock import LoopClock
from partway.gateway.storage.file_turns import FileTurns, NoTurn
from tests.gateway.fleet.processes import eventually
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


async def test_more_work_than_threads_waits_for_its_turn():
    turns = FileTurns(LoopClock(), 2)
    at_work, most, lock = 0, 0, threading.Lock()

    def work(number):
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        with lock:
            at_work -= 1
        return number

    asked = (turns.run(30, lambda _, n=n: work(n)) for n in range(20))
    assert await asyncio.gather(*asked) == list(range(20))
    assert most <= 2


async def test_a_thread_that_hangs_has_its_time_and_keeps_its_place():
    clock, go_on, begun = FakeClock(), threading.Event(), threading.Event()
    turns = FileTurns(clock, 1)

    def hang(_):
        begun.set()
        go_on.wait(30)

    hanging = asyncio.create_task(turns.run(10, hang))
    await eventually(begun.is_set)
    clock.advance(10)
    await eventually(lambda: len(clock.armed) == 1)  # for the thread to see that it is not wanted
    clock.advance(10)
    with pytest.raises(OSError, match="has not answered for 10 s") as caught:
        await hanging
    assert caught.value.errno == errno.EIO
    with pytest.raises(NoTurn, match="all of them hang"):
        await turns.run(10, lambda _: 1)
    go_on.set()

    async def again():
        try:
            return await turns.run(10, lambda _: 1)
        except NoTurn:
            return None

    while await again() is None:  # noqa: ASYNC110 (nothing tells of a thread's end)
        await asyncio.sleep(0)


async def test_a_turn_that_does_not_come_in_time_is_told_from_work_that_fails():
    clock, go_on, begun = FakeClock(), threading.Event(), threading.Event()
    turns = FileTurns(clock, 1)

    def work(_):
        begun.set()
        go_on.wait(30)

    first = asyncio.create_task(turns.run(20, work))
    await eventually(begun.is_set)
    second = asyncio.create_task(turns.run(10, lambda _: 1))
    await eventually(lambda: len(clock.armed) == 2)
    clock.advance(10)
    with pytest.raises(NoTurn, match="none has ended for 10 s"):
        await second
    go_on.set()
    await first
    assert await turns.run(10, lambda _: 1) == 1


async def test_what_the_work_raises_is_raised():
    turns = FileTurns(LoopClock(), 1)

    def fail(_):
        raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        await turns.run(10, fail)
