"""Lines that are written later, by a clock that the test turns."""

from __future__ import annotations

from partway.gateway.streams.late_lines import LateLines
from partway.log_lines import LogLine
from tests.gateway.streams.fakes import FakeClock

SOON = 0.05


def texts(lines):
    return [str(line) for line in lines]


def test_lines_are_written_together_and_in_their_order():
    written, clock = [], FakeClock()
    late = LateLines(written.append, clock)
    late.add(LogLine("one"))
    clock.advance(SOON / 2)
    late.add(LogLine("two"))
    assert written == []
    clock.advance(SOON / 2)
    assert texts(written) == ["one", "two"]
    late.add(LogLine("three"))
    clock.advance(SOON)
    assert texts(written) == ["one", "two", "three"]
    assert clock.armed == []


def test_no_more_than_sixteen_wait():
    written, clock = [], FakeClock()
    late = LateLines(written.append, clock)
    for number in range(16):
        late.add(LogLine(f"{number}"))
    assert written == []
    late.add(LogLine("16"))
    assert texts(written) == [f"{number}" for number in range(17)]
    assert clock.armed == []


def test_whoever_ends_has_them_written_at_once():
    written, clock = [], FakeClock()
    late = LateLines(written.append, clock)
    late.write()
    late.add(LogLine("one"))
    late.write()
    assert texts(written) == ["one"]
    assert clock.armed == []
