"""Ends that are told later, by a clock that the test turns."""

from __future__ import annotations

from partway.gateway.streams.late_ends import LateEnds
from tests.gateway.streams.fakes import FakeClock

SOON = 0.05


def test_ends_are_told_together_and_in_their_order():
    told, clock = [], FakeClock()
    late = LateEnds(told.append, clock)
    late.add("one")
    clock.advance(SOON / 2)
    late.add("two")
    assert told == []
    clock.advance(SOON / 2)
    assert told == ["one", "two"]
    late.add("three")
    clock.advance(SOON)
    assert told == ["one", "two", "three"]
    assert clock.armed == []


def test_no_more_than_sixteen_wait():
    told, clock = [], FakeClock()
    late = LateEnds(told.append, clock)
    for number in range(16):
        late.add(number)
    assert told == []
    late.add(16)
    assert told == [*range(17)]
    assert clock.armed == []


def test_whoever_looks_has_them_told_at_once():
    told, clock = [], FakeClock()
    late = LateEnds(told.append, clock)
    late.tell()
    late.add("one")
    late.tell()
    assert told == ["one"]
    assert clock.armed == []
