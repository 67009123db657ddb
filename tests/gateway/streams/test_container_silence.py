from __future__ import annotations

import pytest

from partway.gateway.streams.container_silence import SilenceWatch
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.clause("1.5-12")


class Watched:
    """A watch, the socket that it looks at, and when it said that there is silence."""

    def __init__(self, unsent: int = 0) -> None:
        self.clock = FakeClock(0.0)
        self.taken, self.unsent = 10, unsent
        self.silent_at: list[float] = []
        self.watch = SilenceWatch(
            self.clock,
            lambda: self.taken,
            lambda: self.unsent,
            lambda: self.silent_at.append(self.clock.now),
        )

    def take(self, count: int) -> None:
        self.taken += count
        self.unsent -= count


def test_silence_from_the_moment_that_is_named():
    watched = Watched()
    watched.watch.begin(3.0, -1.0, once_taken=True)
    watched.clock.advance(10.0)
    assert watched.silent_at == [2.0]
    assert watched.clock.armed == []


def test_silence_that_is_over_already():
    watched = Watched()
    watched.clock.advance(10.0)
    watched.watch.begin(3.0, 1.0, once_taken=True)
    assert watched.silent_at == [], "nobody is called back while still calling"
    watched.clock.advance(0.0)
    assert watched.silent_at == [10.0]


def test_a_frame_starts_it_anew_and_costs_no_timer():
    watched = Watched()
    watched.watch.begin(3.0, 0.0, once_taken=True)
    (timer,) = watched.clock.armed
    for _ in range(5):
        watched.clock.advance(0.5)
        watched.watch.heard(3.0)
    assert watched.clock.armed == [timer]
    watched.clock.advance(10.0)
    assert watched.silent_at == [5.5]


@pytest.mark.parametrize(("limit", "silent_at"), [(3.0, 23.0), (60.0, 80.0), (100.0, 120.0)])
def test_a_frame_may_change_the_limit(limit, silent_at):
    watched = Watched()
    watched.watch.begin(60.0, 0.0, once_taken=True)
    watched.clock.advance(20.0)
    watched.watch.heard(limit)
    watched.clock.advance(200.0)
    assert watched.silent_at == [silent_at]


def test_while_it_is_held_no_time_passes():
    watched = Watched()
    watched.watch.hold()
    watched.watch.begin(3.0, 0.0, once_taken=True)
    watched.clock.advance(50.0)
    watched.watch.heard(5.0)
    assert watched.clock.armed == []
    watched.watch.release()
    watched.clock.advance(50.0)
    assert watched.silent_at == [55.0]


def test_nothing_begins_by_being_released():
    watched = Watched()
    watched.watch.hold()
    watched.watch.release()
    assert watched.clock.armed == []


def test_pings_on_their_way_out_are_no_sign():
    watched = Watched()
    watched.watch.begin(60.0, 0.0, once_taken=True)
    for _ in range(12):
        watched.taken += 14
        watched.clock.advance(10.0)
    assert watched.silent_at == [60.0]


def test_it_begins_once_everything_has_been_taken():
    watched = Watched(unsent=100)
    watched.watch.begin(10.0, 0.0, once_taken=True)
    watched.clock.advance(500.0)
    watched.take(100)
    watched.clock.advance(500.0)
    assert watched.silent_at == [pytest.approx(511.0)]


def test_or_a_peer_that_takes_nothing_is_silent_too():
    watched = Watched(unsent=100)
    watched.watch.begin(10.0, 0.0, once_taken=False)
    watched.clock.advance(8.0)
    watched.take(1)
    watched.clock.advance(500.0)
    assert watched.silent_at == [pytest.approx(19.0)]


def test_stopped_it_says_nothing():
    watched = Watched()
    watched.watch.begin(3.0, 0.0, once_taken=True)
    watched.watch.stop()
    watched.watch.release()
    watched.clock.advance(10.0)
    assert watched.silent_at == []
