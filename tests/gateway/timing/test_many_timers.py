"""gateway.timing.many_timers: each in its time, whoever is cancelled, and nothing left behind."""

from __future__ import annotations

import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.timing.many_timers import ManyTimers
from tests.gateway.streams.fakes import FakeClock


class Called(list[tuple[str, float]]):
    """Who was called, and when."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock

    def note(self, who: str) -> None:
        self.append((who, self._clock.time()))


def test_each_is_called_once_in_its_time():
    clock = FakeClock(0.0)
    timers, called = ManyTimers(clock), Called(clock)
    timers.call_later(5, called.note, "first")
    clock.advance(2)
    timers.call_later(5, called.note, "second")
    timers.call_later(1, called.note, "short")
    clock.advance(100)
    assert called == [("short", 3.0), ("first", 5.0), ("second", 7.0)]
    assert clock.armed == []


def test_a_line_has_one_timer_however_many_stand_in_it():
    clock = FakeClock()
    timers = ManyTimers(clock)
    for _ in range(100):
        timers.call_later(5, print)
    assert len(clock.armed) == 1


def test_who_is_cancelled_is_not_called():
    clock = FakeClock(0.0)
    timers, called = ManyTimers(clock), Called(clock)
    cancelled = timers.call_later(5, called.note, "cancelled")
    stays = timers.call_later(5, called.note, "stays")
    cancelled.cancel()
    cancelled.cancel()  # said again, it means nothing
    clock.advance(5)
    stays.cancel()  # nor does it behind its time
    assert called == [("stays", 5.0)]


def test_who_begins_another_timer_when_called_has_it_in_its_time():
    clock = FakeClock(0.0)
    timers, called = ManyTimers(clock), Called(clock)

    def again() -> None:
        called.note("again")
        if len(called) < 3:
            timers.call_later(5, again)

    timers.call_later(5, again)
    clock.advance(100)
    assert [when for _, when in called] == [5.0, 10.0, 15.0]
    assert clock.armed == []


def test_what_goes_wrong_with_one_does_not_stop_the_others():
    clock = FakeClock(0.0)
    timers, called = ManyTimers(clock), Called(clock)

    def wrong() -> None:
        raise KeyError("of a callback's own")

    timers.call_later(5, wrong)
    timers.call_later(5, called.note, "other")
    with pytest.raises(KeyError):
        clock.advance(5)
    clock.advance(5)
    assert [who for who, _ in called] == ["other"]


@given(
    st.lists(
        st.tuples(st.sampled_from([1.0, 2.5, 60.0]), st.integers(0, 20), st.booleans()),
        max_size=40,
    )
)
def test_they_are_called_as_the_clocks_own_timers_are(steps: list[tuple[float, int, bool]]) -> None:
    clock = FakeClock(0.0)
    timers, called, own = ManyTimers(clock), Called(clock), Called(clock)
    for number, (delay, pause, is_cancelled) in enumerate(steps):
        both = (
            timers.call_later(delay, called.note, str(number)),
            clock.call_later(delay, own.note, str(number)),
        )
        if is_cancelled:
            for each in both:
                each.cancel()
        clock.advance(float(pause))
    clock.advance(100.0)
    assert sorted(called) == sorted(own)


class Waiting:
    """Somebody with a timer by which they are called."""

    def __init__(self, timers: ManyTimers) -> None:
        self.timer = timers.call_later(5, self.over, [])

    def over(self, _: list[str]) -> None:
        raise AssertionError("the timer is cancelled")


def test_who_is_not_called_any_more_is_let_go_of_without_a_collection_of_garbage():
    clock = FakeClock(0.0)
    waiting = Waiting(ManyTimers(clock))
    waiting.timer.cancel()
    there = weakref.ref(waiting)
    gc.disable()
    try:
        del waiting
        assert there() is None
    finally:
        gc.enable()
    clock.advance(10)
