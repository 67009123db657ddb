"""partway.gateway.storage.store.disk_thread: in order, to its end, and in nobody's way."""

from __future__ import annotations

import asyncio
import threading

import pytest

from partway.gateway.storage.store.disk_thread import DiskThread
from partway.gateway.storage.store.limits import (
    STORE_BEGIN_TIMEOUT,
    STORE_CLOSE_TIMEOUT,
    STORE_WAITING,
)
from partway.gateway.storage.store.store import StoreError
from partway.gateway.timing.clock import LoopClock
from tests.gateway.streams.fakes import FakeClock

#: Nothing here takes this long, in seconds.
PATIENCE = 30


class Gate:
    """Work that hangs until it is let go on."""

    def __init__(self) -> None:
        self._begun, self._go_on = threading.Event(), threading.Event()
        self.is_over = False

    def pass_through(self) -> str:
        self._begun.set()
        assert self._go_on.wait(PATIENCE)
        self.is_over = True
        return "passed"

    async def begun(self) -> None:
        assert await asyncio.to_thread(self._begun.wait, PATIENCE)

    def open(self) -> None:
        self._go_on.set()


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def thread(clock, gate):
    thread = DiskThread(clock)
    yield thread
    gate.open()
    await thread.aclose(lambda: None)


async def turns(number: int = 10) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_all_is_done_on_one_other_thread_in_order(thread):
    done = []

    def work(number: int) -> int:
        done.append(number)
        return threading.get_ident()

    threads = await asyncio.gather(*(thread.run(lambda n=n: work(n)) for n in range(50)))
    assert done == list(range(50))
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


async def test_what_it_raises_is_raised_and_the_next_is_done(thread):
    def broken() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await thread.run(broken)
    assert await thread.run(lambda: 1) == 1


async def test_the_loop_goes_on_while_it_works(thread, gate):
    """However long the work takes: it ends only after the loop has turned a thousand times."""
    working = asyncio.create_task(thread.run(gate.pass_through))
    await gate.begun()
    await turns(1000)
    assert not working.done()
    gate.open()
    assert await working == "passed"


async def test_long_work_lets_others_be_done_between_its_steps(thread, gate):
    done = []

    def long() -> None:
        gate.pass_through()
        thread.do_waiting()
        done.append("long")

    working = asyncio.create_task(thread.run(long))
    await gate.begun()
    others = [asyncio.create_task(thread.run(lambda n=n: done.append(n))) for n in range(3)]
    await turns()
    gate.open()
    await asyncio.gather(working, *others)
    assert done == [0, 1, 2, "long"]


async def test_long_work_ends_when_the_thread_is_to_end(thread, gate):
    def long() -> None:
        gate.pass_through()
        thread.do_waiting()

    working = asyncio.create_task(thread.run(long))
    await gate.begun()
    closed = []
    closing = asyncio.create_task(thread.aclose(lambda: closed.append(working.done())))
    await turns()
    gate.open()
    with pytest.raises(StoreError, match="the store is closed"):
        await working
    await closing
    assert len(closed) == 1


async def test_what_was_begun_is_done_to_its_end_also_if_its_caller_is_cancelled(thread, gate):
    working = asyncio.create_task(thread.run(gate.pass_through))
    await gate.begun()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert not gate.is_over
    gate.open()
    await thread.run(lambda: None)
    assert gate.is_over


async def test_what_was_not_begun_is_not_done_if_its_caller_is_cancelled(thread, gate):
    done = []
    working = asyncio.create_task(thread.run(gate.pass_through))
    waiting = asyncio.create_task(thread.run(lambda: done.append(1)))
    await gate.begun()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.open()
    await working
    await thread.run(lambda: None)
    assert done == []


async def test_what_is_not_begun_in_time_is_given_up_and_what_was_is_waited_for(
    thread, gate, clock
):
    done = []
    working = asyncio.create_task(thread.run(gate.pass_through))
    await gate.begun()
    waiting = asyncio.create_task(thread.run(lambda: done.append(1)))
    await turns()
    clock.advance(STORE_BEGIN_TIMEOUT)
    with pytest.raises(StoreError, match=r"has not answered for 30 s; check it, or"):
        await waiting
    await turns()
    assert not working.done()
    gate.open()
    assert await working == "passed"
    await thread.run(lambda: None)
    assert done == []


async def test_only_so_many_wait(thread, gate):
    working = asyncio.create_task(thread.run(gate.pass_through))
    await gate.begun()
    waiting = [asyncio.create_task(thread.run(lambda: 1)) for _ in range(STORE_WAITING)]
    await turns()
    with pytest.raises(StoreError, match="64 reads and changes already wait"):
        await thread.run(lambda: 1)
    gate.open()
    assert await asyncio.gather(working, *waiting) == ["passed", *[1] * STORE_WAITING]


async def test_its_end_waits_for_what_was_asked_for_and_takes_no_more(thread, gate):
    done = []
    working = asyncio.create_task(thread.run(gate.pass_through))
    await gate.begun()
    waiting = asyncio.create_task(thread.run(lambda: done.append("asked for")))
    await turns()
    closing = asyncio.create_task(thread.aclose(lambda: done.append("last")))
    again = asyncio.create_task(thread.aclose(lambda: done.append("again")))
    await turns()
    assert not closing.done()
    with pytest.raises(StoreError, match="the store is closed"):
        await thread.run(lambda: 1)
    gate.open()
    await asyncio.gather(working, waiting, closing, again)
    assert done == ["asked for", "last"]
    assert thread._thread is not None
    await asyncio.to_thread(thread._thread.join, PATIENCE)
    assert not thread._thread.is_alive()


async def test_one_that_hangs_is_left_behind(thread, gate, clock):
    working = asyncio.create_task(thread.run(gate.pass_through))
    await gate.begun()
    closing = asyncio.create_task(thread.aclose(lambda: None))
    await turns()
    clock.advance(STORE_CLOSE_TIMEOUT)
    with pytest.raises(TimeoutError):
        await closing
    gate.open()
    assert await working == "passed"


async def test_where_nothing_was_asked_for_nothing_comes_last():
    thread, done = DiskThread(LoopClock()), []
    await thread.aclose(lambda: done.append("last"))
    assert done == []


async def test_a_system_that_has_no_more_threads(monkeypatch):
    def refused(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(StoreError, match="the store cannot start a thread: can't start new thread"):
        await DiskThread(LoopClock()).run(lambda: 1)


def test_it_does_not_matter_to_it_whether_the_loop_has_ended():
    gate, thread = Gate(), DiskThread(FakeClock())

    async def leave() -> None:
        working = asyncio.create_task(thread.run(gate.pass_through))
        await gate.begun()
        working.cancel()
        await asyncio.wait((working,))

    asyncio.run(leave())
    gate.open()
    asyncio.run(thread.aclose(lambda: None))
    assert gate.is_over
