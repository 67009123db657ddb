"""partway.protocol.connections.head_wait, by a clock that the test turns."""

from __future__ import annotations

import pytest

from partway.protocol.connections.head_wait import HeadWait
from tests.gateway.streams.fakes import FakeClock

SECONDS = 15.0


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def told():
    return []


@pytest.fixture
def wait(clock, told):
    return HeadWait(SECONDS, lambda: told.append(clock.now), clock.call_later, clock.time)


def test_it_is_told_when_the_time_is_over(clock, wait, told):
    wait.begin()
    clock.advance(SECONDS - 0.1)
    assert not told
    clock.advance(0.1)
    assert told == [clock.now]
    assert not clock.armed


def test_many_waits_have_one_timer_and_the_last_ones_time(clock, wait, told):
    began = clock.now
    for _ in range(10):
        wait.begin()
        clock.advance(1)
        assert len(clock.armed) == 1
    clock.advance(SECONDS)
    assert told == [began + 9 + SECONDS]


def test_it_waits_again(clock, wait, told):
    for count in (1, 2):
        wait.begin()
        clock.advance(SECONDS)
        assert len(told) == count


@pytest.mark.parametrize("begun", [True, False])
def test_after_its_end_nobody_is_told_or_held(clock, wait, told, begun):
    if begun:
        wait.begin()
    wait.cancel()
    assert not clock.armed
    clock.advance(2 * SECONDS)
    assert not told
