from __future__ import annotations

from collections.abc import Callable

import pytest

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.protocol.connections.peer_watch import PingWatch, StallWatch, Wait
from partway.protocol.limits import PING_FLUSH_CHECK
from tests.gateway.streams.fakes import FakeClock, FakeConnection

DEFAULT = StreamPolicy()


def counter(number: int) -> bytes:
    return number.to_bytes(8, "big")


class Watched:
    """A PingWatch with its surroundings; time is counted from its beginning."""

    def __init__(
        self,
        interval: float = DEFAULT.ping_interval,
        unanswered_limit: int = DEFAULT.pings_unanswered,
        stall_timeout: float = DEFAULT.stall_timeout,
    ) -> None:
        self.clock = FakeClock(0.0)
        self.connection = FakeConnection()
        self.connection.taken = None
        self.lost_at: list[float] = []
        self.stalled_at: list[float] = []
        self.stall = StallWatch(
            lambda: self.connection.taken or 0,
            self.clock,
            stall_timeout,
            lambda: self.stalled_at.append(self.clock.now),
        )
        self.watch = PingWatch(
            self.connection,
            self.clock,
            interval=interval,
            unanswered_limit=unanswered_limit,
            on_lost=lambda: self.lost_at.append(self.clock.now),
            stall=self.stall,
        )

    def pings_until(self, moment: float) -> list[tuple[float, bytes]]:
        """Let time pass; the pings sent meanwhile, each with its second."""
        sent = []
        while self.clock.now < moment:
            before = len(self.connection.pings)
            self.clock.advance_to(min(moment, self.clock.now + 1.0))
            sent += [(self.clock.now, ping) for ping in self.connection.pings[before:]]
        return sent

    def pong(self, number: int) -> None:
        self.watch.pong_received(counter(number))


# --- Pings ---------------------------------------------------------------------------------------


@pytest.mark.clause("1.4-1")
def test_a_ping_a_minute_and_the_end_after_six():
    watched = Watched()
    assert watched.pings_until(359.0) == [
        (60.0 * number, counter(number)) for number in range(1, 6)
    ]
    assert watched.lost_at == []
    assert watched.pings_until(1000.0) == []
    assert watched.lost_at == [360.0]
    assert watched.clock.armed == []


@pytest.mark.clause("1.4-4")
def test_a_client_is_gone_after_two():
    watched = Watched(DEFAULT.client_ping_interval, DEFAULT.client_pings_unanswered)
    assert watched.pings_until(1000.0) == [(25.0, counter(1)), (50.0, counter(2))]
    assert watched.lost_at == [75.0]


@pytest.mark.clause("1.4-1")
def test_whoever_answers_stays():
    watched = Watched()
    for number in range(1, 31):
        assert watched.pings_until(60.0 * number) == [(60.0 * number, counter(number))]
        watched.pong(number)
    assert watched.lost_at == []


@pytest.mark.clause("1.4-1")
def test_one_late_pong_answers_all_before_it():
    watched = Watched()
    watched.pings_until(359.0)
    watched.pong(5)
    watched.pings_until(659.0)
    assert watched.lost_at == []
    watched.pings_until(660.0)
    assert watched.lost_at == [660.0]


@pytest.mark.clause("1.4-1")
def test_a_pong_to_nothing_keeps_nobody_alive():
    watched = Watched()
    for second in range(1, 360):
        watched.pings_until(float(second))
        watched.watch.pong_received(b"")
        watched.watch.pong_received(b"keepalive")
    watched.pings_until(360.0)
    assert watched.lost_at == [360.0]


def test_after_stop_nothing_is_armed():
    watched = Watched()
    watched.pings_until(60.5)
    watched.watch.stop()
    assert watched.clock.armed == []
    watched.watch.reading_paused()
    watched.watch.reading_resumed()
    assert watched.clock.armed == []


# --- Held ----------------------------------------------------------------------------------------


@pytest.mark.clause("1.4-2")
def test_while_reading_is_paused_no_ping_goes_and_nobody_is_lost():
    watched = Watched()
    watched.pings_until(359.0)
    watched.watch.reading_paused()
    assert watched.pings_until(10_000.0) == []
    assert watched.lost_at == []


@pytest.mark.clause("1.4-2")
def test_read_again_the_clock_starts_from_zero():
    """Neither the pings before the pause nor their intervals count."""
    watched = Watched()
    watched.pings_until(359.0)
    watched.watch.reading_paused()
    watched.pings_until(400.0)
    watched.watch.reading_resumed()
    assert watched.pings_until(759.0) == [
        (400.0 + 60 * number, counter(5 + number)) for number in range(1, 6)
    ]
    assert watched.lost_at == []
    watched.pings_until(760.0)
    assert watched.lost_at == [760.0]


@pytest.mark.clause("1.4-2")
def test_a_ping_that_the_socket_has_not_taken_stops_the_clock():
    watched = Watched(stall_timeout=1e9)
    watched.connection.taken = 0
    assert watched.pings_until(10_000.0) == [(60.0, counter(1))]
    assert watched.lost_at == []
    watched.connection.taken = None
    assert watched.pings_until(10_360.0) == [
        (10_001.0 + 60 * number, counter(1 + number)) for number in range(1, 6)
    ]
    watched.pings_until(10_361.0)
    assert watched.lost_at == [10_361.0]


@pytest.mark.clause("1.4-2")
def test_of_two_reasons_both_have_to_go():
    watched = Watched(stall_timeout=1e9)
    watched.connection.taken = 0
    watched.pings_until(70.0)
    watched.watch.reading_paused()
    watched.connection.taken = 10
    assert watched.pings_until(200.0) == []
    watched.watch.reading_resumed()
    assert watched.pings_until(260.0) == [(260.0, counter(2))]


@pytest.mark.clause("1.4-2")
@pytest.mark.parametrize("interval", [0.01, 0.1, 0.3, PING_FLUSH_CHECK, 2.0])
def test_a_short_interval_kills_nobody_who_has_not_seen_the_ping(interval):
    watched = Watched(interval, 1, stall_timeout=1e9)
    watched.connection.taken = 0
    watched.clock.advance(60.0)
    assert len(watched.connection.pings) == 1
    assert watched.lost_at == []


@pytest.mark.clause("1.4-2")
def test_someone_watches_a_ping_that_waits():
    """Below the high-water mark nothing is paused, yet nothing moves."""
    watched = Watched()
    watched.connection.taken = 0
    watched.clock.advance_to(60.0 + PING_FLUSH_CHECK + DEFAULT.stall_timeout - 0.1)
    assert watched.stalled_at == []
    watched.clock.advance(DEFAULT.stall_timeout / 10 + 0.1)
    assert len(watched.stalled_at) == 1


@pytest.mark.clause("1.4-2")
def test_and_no_longer_once_it_went_out():
    watched = Watched()
    watched.connection.taken = 0
    watched.clock.advance_to(100.0)
    watched.connection.taken = 10
    watched.clock.advance_to(459.0)
    assert watched.stalled_at == []


def test_stopped_it_no_longer_keeps_the_stall_watch_waiting():
    """Nobody would say that the ping has gone out: a healthy direction would look stalled."""
    watched = Watched()
    watched.connection.taken = 0
    watched.clock.advance_to(100.0)
    watched.watch.stop()
    assert watched.clock.armed == []
    watched.clock.advance(1000.0)
    assert watched.stalled_at == []


# --- Stalls --------------------------------------------------------------------------------------

TIMEOUT = DEFAULT.stall_timeout


class Stalling:
    """A StallWatch, waiting from the start."""

    def __init__(self) -> None:
        self.clock = FakeClock(0.0)
        self.taken = 12345
        self.stalled_at: list[float] = []
        self.watch = StallWatch(
            lambda: self.taken, self.clock, TIMEOUT, lambda: self.stalled_at.append(self.clock.now)
        )
        self.watch.waiting(Wait.HIGH_WATER)

    def every(self, seconds: float, until: float, then: Callable[[], None]) -> None:
        while self.clock.now < until:
            self.clock.advance(seconds)
            then()

    def takes(self) -> None:
        self.taken += 1


@pytest.mark.clause("1.4-2")
def test_a_stall_is_300_seconds_without_a_byte():
    assert TIMEOUT == 300.0
    stalling = Stalling()
    stalling.clock.advance(299.9)
    assert stalling.stalled_at == []
    stalling.clock.advance(0.1)
    assert stalling.stalled_at == [300.0]
    stalling.clock.advance(1000.0)
    assert stalling.stalled_at == [300.0]
    assert stalling.clock.armed == []


@pytest.mark.clause("1.4-2")
def test_a_byte_in_299_seconds_is_no_stall():
    stalling = Stalling()
    stalling.every(269.0, 1800.0, stalling.takes)
    assert stalling.stalled_at == []


@pytest.mark.clause("1.4-2")
@pytest.mark.parametrize("last_byte_at", [1.0, 29.0, 30.5, 100.0, 299.0])
def test_it_comes_within_a_tenth_after_the_last_byte(last_byte_at):
    stalling = Stalling()
    stalling.clock.advance_to(last_byte_at)
    stalling.takes()
    stalling.clock.advance(1000.0)
    (stalled_at,) = stalling.stalled_at
    assert last_byte_at + TIMEOUT <= stalled_at <= last_byte_at + 1.1 * TIMEOUT


@pytest.mark.clause("1.4-2")
def test_moving_again_it_is_not_watched():
    stalling = Stalling()
    stalling.clock.advance(290.0)
    stalling.watch.moving(Wait.HIGH_WATER)
    assert stalling.clock.armed == []
    stalling.watch.waiting(Wait.HIGH_WATER)
    stalling.clock.advance(299.0)
    assert stalling.stalled_at == []
    stalling.clock.advance(1.0)
    assert stalling.stalled_at == [590.0]


def test_two_reasons_are_one_wait():
    stalling = Stalling()
    stalling.clock.advance(200.0)
    stalling.watch.waiting(Wait.PING)
    stalling.watch.moving(Wait.HIGH_WATER)
    stalling.clock.advance(99.0)
    assert stalling.stalled_at == []
    stalling.clock.advance(1.0)
    assert stalling.stalled_at == [300.0]


def test_stopped_it_says_nothing():
    stalling = Stalling()
    stalling.watch.stop()
    assert stalling.clock.armed == []
    stalling.clock.advance(1000.0)
    assert stalling.stalled_at == []
