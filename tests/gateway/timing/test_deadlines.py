"""partway.gateway.timing.deadlines, by a clock that the test turns."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.timing.clock import LoopClock
from partway.gateway.timing.deadlines import (
    TimeLimit,
    before,
    first_of,
    held_in_time,
    in_turns,
    pause,
    set_or_over,
    side_by_side,
    time_limit,
)
from partway.gateway.timing.many_timers import ManyTimers
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("no_leaks")


async def turns() -> None:
    """Let the others go on until they wait."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_limit_that_is_not_reached_leaves_no_timer():
    clock = FakeClock()
    async with time_limit(clock, 10):
        clock.advance(9.9)
        await turns()
    assert clock.armed == []


async def test_a_limit_ends_what_is_awaited():
    clock = FakeClock()
    forever = asyncio.get_running_loop().create_future()

    async def work() -> None:
        async with time_limit(clock, 10):
            await forever

    working = asyncio.create_task(work())
    await turns()
    clock.advance(9.9)
    await turns()
    assert not forever.done()
    clock.advance(0.1)
    with pytest.raises(TimeoutError):
        await working
    assert forever.cancelled()
    assert clock.armed == []


async def test_an_error_in_time_is_none_of_the_limits():
    clock = FakeClock()
    with pytest.raises(ValueError, match="its own"):
        async with time_limit(clock, 10):
            raise ValueError("its own")
    assert clock.armed == []


async def test_a_cancellation_is_no_timeout():
    clock = FakeClock()

    async def work() -> None:
        async with time_limit(clock, 10):
            await asyncio.get_running_loop().create_future()

    working = asyncio.create_task(work())
    await turns()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert clock.armed == []


def overdue() -> LookupError:
    return LookupError("not its turn")


async def test_a_turn_that_does_not_come_in_time_has_its_own_error():
    clock, lock = FakeClock(), asyncio.Lock()

    async def work() -> None:
        async with held_in_time(lock, clock, 10, overdue):
            raise AssertionError("another one holds the lock")

    async with lock:
        waiting = asyncio.create_task(work())
        await turns()
        clock.advance(9.9)
        await turns()
        assert not waiting.done()
        clock.advance(0.1)
        with pytest.raises(LookupError, match="not its turn"):
            await waiting
    assert not lock.locked()
    assert clock.armed == []


async def test_what_is_done_in_turn_takes_any_time_and_has_its_own_errors():
    clock, lock = FakeClock(), asyncio.Lock()

    async def work() -> None:
        async with held_in_time(lock, clock, 10, overdue):
            assert lock.locked()
            assert clock.armed == []
            clock.advance(11)
            await turns()
            raise TimeoutError("of the block")

    with pytest.raises(TimeoutError, match="of the block"):
        await work()
    assert not lock.locked()


async def test_who_stops_waiting_for_a_turn_holds_nothing():
    clock, lock = FakeClock(), asyncio.Lock()

    async def work() -> None:
        async with held_in_time(lock, clock, 10, overdue):
            pass

    async with lock:
        waiting = asyncio.create_task(work())
        await turns()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert not lock.locked()
    assert clock.armed == []


async def test_a_pause_takes_its_time():
    clock = FakeClock()
    pausing = asyncio.create_task(pause(clock, 3))
    await turns()
    clock.advance(2.9)
    await turns()
    assert not pausing.done()
    clock.advance(0.1)
    await pausing
    assert clock.armed == []


async def test_a_pause_that_is_cancelled_leaves_no_timer():
    clock = FakeClock()
    pausing = asyncio.create_task(pause(clock, 3))
    await turns()
    pausing.cancel()
    await asyncio.wait((pausing,))
    assert clock.armed == []


async def test_an_event_is_waited_for_until_its_time_is_over():
    clock, event = FakeClock(), asyncio.Event()
    waiting = asyncio.create_task(set_or_over(event, clock, 3))
    await turns()
    clock.advance(2.9)
    await turns()
    assert not waiting.done()
    clock.advance(0.1)
    await waiting
    assert not event.is_set()
    assert clock.armed == []


async def test_an_event_that_comes_in_its_time_is_enough():
    clock, event = FakeClock(), asyncio.Event()
    waiting = asyncio.create_task(set_or_over(event, clock, 3))
    await turns()
    event.set()
    await waiting
    assert clock.armed == []


async def test_whoever_stops_waiting_for_an_event_is_not_told_that_its_time_is_over():
    clock = FakeClock()
    waiting = asyncio.create_task(set_or_over(asyncio.Event(), clock, 3))
    await turns()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert clock.armed == []


@pytest.mark.parametrize("which", [0, 1, 2])
async def test_the_first_event_is_enough(which):
    events = [asyncio.Event() for _ in range(3)]
    waiting = asyncio.create_task(first_of(*events))
    await turns()
    assert not waiting.done()
    events[which].set()
    await waiting


async def test_an_event_that_has_come_is_not_waited_for():
    came = asyncio.Event()
    came.set()
    async with asyncio.timeout(5):
        await first_of(asyncio.Event(), came)


async def test_whoever_stops_waiting_for_events_leaves_nothing():
    waiting = asyncio.create_task(first_of(asyncio.Event(), asyncio.Event()))
    await turns()
    waiting.cancel()
    await asyncio.wait((waiting,))
    assert waiting.cancelled()


async def test_work_that_is_done_before_an_event_has_its_result():
    async def work() -> int:
        return 3

    assert await before(asyncio.Event(), work()) == 3


async def test_work_that_fails_before_an_event_has_its_error():
    async def work() -> None:
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        await before(asyncio.Event(), work())


async def test_an_event_ends_the_work_and_waits_until_it_has_ended():
    event, said = asyncio.Event(), []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await turns()
            said.append("over")

    working = asyncio.create_task(before(event, work()))
    await turns()
    event.set()
    assert await working is None
    assert said == ["over"]


async def test_whoever_stops_waiting_for_work_stops_it():
    forever = asyncio.get_running_loop().create_future()

    async def work() -> None:
        await forever

    working = asyncio.create_task(before(asyncio.Event(), work()))
    await turns()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert forever.cancelled()


# --- TimeLimit -----------------------------------------------------------------------------------


def limited(seconds):
    return TimeLimit(seconds, ManyTimers(LoopClock()))


async def test_a_block_that_takes_longer_is_broken_off():
    limit = limited(0.01)
    with pytest.raises(TimeoutError), limit:
        await asyncio.Event().wait()
    assert limit.expired
    assert not asyncio.current_task().cancelling()


async def test_a_block_that_is_done_in_time_leaves_no_timer():
    with limited(0.01) as limit:
        await asyncio.sleep(0)
    await asyncio.sleep(0.03)
    assert not limit.expired


async def test_a_limit_that_is_lifted_is_none():
    with limited(0.01) as limit:
        limit.lift()
        await asyncio.sleep(0.03)
    assert not limit.expired


async def test_a_limit_that_is_cut_short_is_over():
    limit = limited(60.0)
    asyncio.get_running_loop().call_soon(limit.cut_short)
    with pytest.raises(TimeoutError), limit:
        await asyncio.Event().wait()
    assert limit.expired
    assert not asyncio.current_task().cancelling()


async def test_who_is_cancelled_by_others_stays_so():
    async def work():
        with limited(60.0):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_of_the_block_is_its_own():
    with pytest.raises(KeyError), limited(5.0):
        raise KeyError


async def test_others_have_their_turn_between_many_things():
    said: list[object] = []

    async def other() -> None:
        for _ in range(2):
            said.append("other")
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    async for each in in_turns(range(5), 2):
        said.append(each)
    await task
    assert said == [0, 1, "other", 2, 3, "other", 4]


async def test_what_is_left_is_done_side_by_side():
    left, done, all_begun = iter(range(5)), [], asyncio.Event()
    waiting = 0

    async def work() -> None:
        nonlocal waiting
        waiting += 1
        if waiting == 3:
            all_begun.set()
        await all_begun.wait()
        done.extend(left)

    async with asyncio.timeout(5):
        await side_by_side(3, work)
    assert done == [0, 1, 2, 3, 4]


async def test_the_first_that_fails_side_by_side_stops_the_others_and_is_told_by_itself():
    numbers, stopped = iter(range(3)), []

    async def work() -> None:
        number = next(numbers)
        if number == 1:
            await asyncio.sleep(0)
            raise ValueError("its own")
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(number)
            if number == 2:
                raise KeyError("of its making")

    async with asyncio.timeout(5):
        with pytest.raises(ValueError, match="its own"):
            await side_by_side(3, work)
    assert sorted(stopped) == [0, 2]


async def test_whoever_is_cancelled_side_by_side_is_cancelled_whatever_the_others_say():
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("of its making")

    task = asyncio.create_task(side_by_side(2, work))
    async with asyncio.timeout(5):
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()
