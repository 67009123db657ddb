"""partway.gateway.fleet.health.ping_pace: apart, but together."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.fleet.health.ping_pace import PingPace
from partway.gateway.fleet.limits import EXTRA_PING_AFTER
from tests.gateway.fleet.fakes import turns
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

INTERVAL = 10.0


async def waiting(pace):
    task = asyncio.create_task(pace.until_next())
    await turns(3)
    return task


async def behind_its_first_wait(clock):
    pace = PingPace(clock, INTERVAL)
    wait = await waiting(pace)
    clock.advance(INTERVAL)
    await wait
    return pace


async def test_many_part_at_once_stay_apart_and_share_their_moments():
    """Rules 1 and 2."""
    clock = FakeClock(now=1234.56)
    paces = [PingPace(clock, INTERVAL) for _ in range(400)]
    first = [await waiting(pace) for pace in paces]
    moments = {timer.due for timer in clock.armed}
    assert 17 <= len(moments) <= 21  # of a quarter of a second each, in five seconds
    assert all(0.47 * INTERVAL <= moment - clock.now <= INTERVAL for moment in moments)
    clock.advance(INTERVAL)
    await asyncio.gather(*first)
    further = [await waiting(pace) for pace in paces]
    moments = {timer.due for timer in clock.armed}
    assert 5 <= len(moments) <= 9  # in two seconds
    assert all(0.77 * INTERVAL <= moment - clock.now <= INTERVAL for moment in moments)
    clock.advance(INTERVAL)
    await asyncio.gather(*further)
    assert not clock.armed


async def test_a_failure_hastens_it_but_not_without_end():
    """Rule 3."""
    clock = FakeClock()
    pace = await behind_its_first_wait(clock)
    wait = await waiting(pace)
    pace.hurry()
    clock.advance(EXTRA_PING_AFTER / 2)
    pace.hurry()
    await turns(3)
    assert not wait.done()
    clock.advance(EXTRA_PING_AFTER / 2)
    await wait
    wait = await waiting(pace)  # nothing has failed since
    clock.advance(EXTRA_PING_AFTER)
    await turns(3)
    assert not wait.done()
    pace.hurry()
    clock.advance(0)
    await wait


async def test_a_failure_hastens_the_first_too(monkeypatch):
    monkeypatch.setattr("random.uniform", lambda *_: 0.9)
    clock = FakeClock()
    pace = PingPace(clock, INTERVAL)
    wait = await waiting(pace)
    pace.hurry()
    clock.advance(EXTRA_PING_AFTER / 2)
    await turns(3)
    assert not wait.done()
    clock.advance(EXTRA_PING_AFTER / 2)
    await wait


async def test_a_failure_while_it_is_pinged_hastens_the_next():
    clock = FakeClock()
    pace = await behind_its_first_wait(clock)
    pace.hurry()
    wait = await waiting(pace)
    clock.advance(EXTRA_PING_AFTER)
    await wait


async def test_a_short_interval_is_not_waited_beyond():
    clock = FakeClock()
    pace = PingPace(clock, 0.05)
    pace.hurry()
    wait = await waiting(pace)
    clock.advance(0.05)
    await wait


async def test_whoever_waits_may_leave():
    clock = FakeClock()
    pace = PingPace(clock, INTERVAL)
    wait = await waiting(pace)
    wait.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wait
    assert not clock.armed
    pace.hurry()
    assert not clock.armed
