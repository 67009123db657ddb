"""partway.gateway.fleet.output.rate_limit, by a clock that the test turns."""

from __future__ import annotations

import pytest

from partway.gateway.fleet.limits import OUTPUT_BURST, OUTPUT_RATE
from partway.gateway.fleet.output.rate_limit import OutputPace


class Source:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")


@pytest.fixture
def source() -> Source:
    return Source()


def test_a_burst_is_read_at_once(clock, source):
    pace = OutputPace(clock)
    for _ in range(4):
        pace.took(OUTPUT_BURST // 4, source)
    assert (source.calls, clock.armed) == ([], [])


def test_what_is_more_has_to_wait_until_nothing_is_owed(clock, source):
    pace = OutputPace(clock)
    pace.took(OUTPUT_BURST + OUTPUT_RATE // 2, source)
    pace.took(OUTPUT_RATE // 2, source)  # it had been read already
    assert source.calls == ["pause"]
    clock.advance(0.4)
    assert source.calls == ["pause"]
    clock.advance(0.1)
    assert source.calls == ["pause", "resume"]
    pace.took(1, source)
    assert source.calls == ["pause", "resume", "pause"], "half a second is still owed"


def test_in_the_long_run_it_is_the_rate(clock, source):
    pace = OutputPace(clock)
    began, read = clock.now, 0
    while clock.now < began + 10:
        pace.took(65_536, source)
        read += 65_536
        if clock.armed:
            clock.advance_to(clock.armed[0].due)
    assert read <= OUTPUT_BURST + 10 * OUTPUT_RATE + 65_536


def test_after_the_end_nothing_waits(clock, source):
    pace = OutputPace(clock)
    pace.took(2 * OUTPUT_BURST, source)
    pace.end()
    pace.took(2 * OUTPUT_BURST, source)
    pace.end()
    assert (source.calls, clock.armed) == (["pause", "resume"], [])
