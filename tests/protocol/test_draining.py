from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from partway.protocol.draining import Departures
from partway.protocol.limits import SHUTDOWN_BURST, SHUTDOWN_SPREAD, SHUTDOWN_STEP

#: A step may begin this early, as a loop's timer may.
TICK = 0.001

counts = st.integers(0, 1500)
windows = st.floats(0, 20) | st.sampled_from([0.0, SHUTDOWN_STEP, SHUTDOWN_SPREAD])


@pytest.fixture(autouse=True)
def _no_leaks():
    """No loop runs here."""


def told_at(departures, now):
    """Everybody who is told at this reading of the clock, however many bursts it takes."""
    told = []
    while names := departures.due(now):
        assert len(names) <= SHUTDOWN_BURST
        told += names
        if departures.wait(now) > 0:
            break
    return told


def kept(count, window, began=0.0, late=0.0):
    """The departures of an owner who keeps to the schedule, or is late each time: (time, names)."""
    departures = Departures(range(count), window, began)
    now, found = began, []
    while departures.left:
        found.append((now - began, departures.due(now)))
        assert len(found) < 10_000, "it never comes to its end"
        wait = departures.wait(now)
        assert wait == 0 or wait > TICK / 2 or not departures.left
        now += wait + (late if wait else 0)
    return found


def test_few_leave_one_by_one_the_first_at_once():
    found = kept(4, 1.0)
    assert [names for _, names in found] == [(0,), (1,), (2,), (3,)]
    assert [at for at, _ in found] == pytest.approx([0, 0.25, 0.5, 0.75])


def test_the_last_wait_goes_to_the_windows_end():
    departures = Departures("ab", 1.0, now=10)
    assert departures.due(10) == ("a",)
    assert departures.wait(10.2) == pytest.approx(0.3)
    assert departures.due(10.5) == ("b",)
    assert departures.wait(10.6) == pytest.approx(0.4)
    assert departures.wait(11.1) == 0


def test_without_a_window_all_leave_at_once():
    departures = Departures(range(SHUTDOWN_BURST + 1), 0, now=5)
    assert departures.due(5) == tuple(range(SHUTDOWN_BURST))
    assert departures.wait(5) == 0
    assert departures.due(5) == (SHUTDOWN_BURST,)
    assert departures.wait(5) == 0


def test_nobody_to_tell():
    departures = Departures((), SHUTDOWN_SPREAD, now=5)
    assert departures.left == 0
    assert departures.due(5) == departures.due(500) == ()


@pytest.mark.parametrize("began", [0.0, 1e9])
def test_ten_thousand_leave_within_the_window(began):
    found = kept(10_000, SHUTDOWN_SPREAD, began)
    times, names = zip(*found, strict=True)
    assert sum(names, ()) == tuple(range(10_000))
    assert times[-1] < SHUTDOWN_SPREAD
    assert len(found) <= SHUTDOWN_SPREAD / SHUTDOWN_STEP + 1, "a wait for each would add up"
    assert {len(each) for each in names} == {20}


def test_ten_thousand_leave_within_the_window_though_each_wait_is_late():
    found = kept(10_000, SHUTDOWN_SPREAD, late=0.05)
    assert found[-1][0] < SHUTDOWN_SPREAD + 0.05
    assert max(len(names) for _, names in found) == SHUTDOWN_BURST


def test_an_owner_that_slept_catches_up():
    departures = Departures(range(10_000), SHUTDOWN_SPREAD, now=0)
    departures.due(0)
    assert len(told_at(departures, 4.0)) == 8000
    assert departures.wait(4.0) == pytest.approx(SHUTDOWN_STEP)
    assert len(told_at(departures, 3600.0)) == 1980
    assert departures.left == 0


def test_hastened_everybody_leaves_in_bursts():
    departures = Departures(range(300), 60, now=0)
    departures.due(0)
    departures.hasten()
    assert departures.wait(0.5) == 0
    assert told_at(departures, 0.5) == list(range(1, 300))


@given(counts, windows, st.lists(st.floats(0, 20), max_size=60))
@example(10_000, 5.0, [0.001] * 60)
def test_at_any_time_the_told_keep_an_even_pace(count, window, pauses):
    """Whoever asks, and however often: nobody is overdue then, and none is early but for a step."""
    departures, now, told = Departures(range(count), window, now=0), 0.0, []
    step = max(1, count / max(1, int(window / SHUTDOWN_STEP)))
    for pause in pauses:
        now += pause
        told += told_at(departures, now)
        even, soon = (
            count * min(1, moment / window) if window else count for moment in (now, now + TICK)
        )
        assert math.floor(even - 1e-6) <= len(told) <= soon + step + 1e-6
        assert departures.left == count - len(told)
    told += told_at(departures, now + window)
    assert told == list(range(count)), "each of them once, in their order"


@given(counts, windows, st.floats(0, 1e6))
def test_keeping_to_the_schedule_all_are_told_before_the_window_ends(count, window, began):
    found = kept(count, window, began)
    bursts = count // SHUTDOWN_BURST + 1
    assert len(found) <= int(window / SHUTDOWN_STEP) + bursts, "no wake-up is for nothing"
    if found:
        assert found[-1][0] <= max(0, window - SHUTDOWN_STEP + 1e-6)


@given(counts, windows, st.floats(0, 2))
def test_what_is_late_does_not_add_up(count, window, late):
    found = kept(count, window, late=late)
    if found:
        assert found[-1][0] <= window + late + TICK
