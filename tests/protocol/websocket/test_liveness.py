from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from partway.protocol.limits import CONTAINER_PING_INTERVAL, CONTAINER_PINGS_UNANSWERED
from partway.protocol.websocket.liveness import Hold, Liveness


def counter(number):
    return number.to_bytes(8, "big")


def watched(now=0.0, interval=CONTAINER_PING_INTERVAL, limit=CONTAINER_PINGS_UNANSWERED):
    return Liveness(interval, limit, now)


def after_pings(count):
    """One that has sent ``count`` pings, a minute apart, the first at 60 s."""
    liveness = watched()
    for number in range(1, count + 1):
        assert liveness.tick(60.0 * number) == counter(number)
    return liveness


@pytest.mark.clause("1.4-1")
def test_silence_is_lost_at_360_seconds_and_not_before():
    liveness = watched()
    pings = {}
    for now in range(360):
        if (payload := liveness.tick(float(now))) is not None:
            pings[now] = payload
        assert not liveness.lost
    assert pings == {60 * number: counter(number) for number in range(1, 6)}
    assert liveness.deadline == 360.0
    assert liveness.tick(359.999) is None
    assert not liveness.lost
    assert liveness.tick(360.0) is None
    assert liveness.lost
    assert liveness.deadline is None
    assert liveness.unanswered == 5


@pytest.mark.clause("1.4-4")
def test_a_client_is_lost_after_two():
    liveness = watched(limit=2)
    assert [liveness.tick(now) for now in (60.0, 120.0, 180.0)] == [counter(1), counter(2), None]
    assert liveness.lost


def test_the_clock_starts_anywhere():
    liveness = watched(now=1000.0)
    assert liveness.deadline == 1060.0
    assert liveness.tick(1059.9) is None
    assert liveness.tick(1060.0) == counter(1)


def test_a_late_tick_moves_the_next_one():
    """An interval is at least an interval: two pings never come in one burst."""
    liveness = watched()
    assert liveness.tick(500.0) == counter(1)
    assert liveness.deadline == 560.0
    assert liveness.tick(500.0) is None


@pytest.mark.clause("1.4-1")
@pytest.mark.parametrize("answered", range(1, 6))
def test_a_pong_answers_its_ping_and_every_earlier_one(answered):
    liveness = after_pings(5)
    liveness.pong(counter(answered))
    assert liveness.unanswered == 5 - answered


@pytest.mark.clause("1.4-1")
def test_each_answer_gives_five_more():
    liveness = after_pings(5)
    liveness.pong(counter(5))
    assert [liveness.tick(60.0 * number) for number in range(6, 11)] == [
        counter(number) for number in range(6, 11)
    ]
    assert not liveness.lost
    assert liveness.tick(660.0) is None
    assert liveness.lost


@pytest.mark.clause("1.4-1")
def test_the_fifth_may_still_be_answered_until_its_interval_is_over():
    liveness = after_pings(5)
    liveness.pong(counter(1))
    assert liveness.tick(360.0) == counter(6)
    assert not liveness.lost
    assert liveness.tick(420.0) is None
    assert liveness.lost


@pytest.mark.clause("1.4-1")
@pytest.mark.parametrize(
    "payload",
    [
        b"", b"\x00", b"hello", counter(0), counter(4), counter(2**64 - 1),
        counter(1)[1:], counter(1) + b"\x00", b"\x00" + counter(1), b"1", b"1       ",
    ],
)  # fmt: skip
def test_a_pong_that_echoes_no_ping_of_ours_answers_none(payload):
    liveness = after_pings(3)
    liveness.pong(payload)
    assert liveness.unanswered == 3


def test_an_old_pong_takes_nothing_back():
    liveness = after_pings(3)
    liveness.pong(counter(3))
    liveness.pong(counter(1))
    assert liveness.unanswered == 0


def test_a_pong_does_not_move_the_next_ping():
    liveness = after_pings(1)
    liveness.pong(counter(1))
    assert liveness.deadline == 120.0


def test_lost_is_for_good():
    liveness = watched(limit=1)
    liveness.tick(60.0)
    liveness.tick(120.0)
    assert liveness.lost
    liveness.pong(counter(1))
    liveness.hold(Hold.READING_PAUSED)
    liveness.release(Hold.READING_PAUSED, 130.0)
    assert liveness.lost
    assert liveness.deadline is None
    assert liveness.tick(10_000.0) is None


@pytest.mark.clause("1.4-2")
@pytest.mark.parametrize("reason", [Hold.READING_PAUSED, Hold.PING_UNFLUSHED])
def test_while_held_no_time_passes(reason):
    liveness = after_pings(5)
    liveness.hold(reason)
    assert liveness.deadline is None
    assert liveness.tick(100_000.0) is None
    assert not liveness.lost


@pytest.mark.clause("1.4-2")
@pytest.mark.parametrize("reason", [Hold.READING_PAUSED, Hold.PING_UNFLUSHED])
def test_released_it_starts_from_zero(reason):
    liveness = after_pings(5)
    liveness.hold(reason)
    liveness.release(reason, 1000.0)
    assert liveness.unanswered == 0
    assert liveness.deadline == 1060.0
    assert [liveness.tick(1000.0 + 60 * number) for number in range(1, 6)] == [
        counter(number) for number in range(6, 11)
    ]
    assert liveness.tick(1359.9) is None
    assert not liveness.lost
    liveness.tick(1360.0)
    assert liveness.lost


@pytest.mark.clause("1.4-2")
def test_both_reasons_must_go():
    liveness = after_pings(1)
    liveness.hold(Hold.READING_PAUSED)
    liveness.hold(Hold.PING_UNFLUSHED)
    liveness.release(Hold.READING_PAUSED, 100.0)
    assert liveness.deadline is None
    assert liveness.unanswered == 1
    liveness.release(Hold.PING_UNFLUSHED, 200.0)
    assert liveness.deadline == 260.0
    assert liveness.unanswered == 0


def test_a_reason_held_twice_is_one_reason():
    liveness = watched()
    liveness.hold(Hold.READING_PAUSED)
    liveness.hold(Hold.READING_PAUSED)
    liveness.release(Hold.READING_PAUSED, 100.0)
    assert liveness.deadline == 160.0


@pytest.mark.clause("1.4-2")
def test_releasing_what_is_not_held_changes_nothing():
    """Else a stream that pauses for nothing would never be found dead."""
    liveness = after_pings(2)
    liveness.release(Hold.READING_PAUSED, 150.0)
    assert liveness.unanswered == 2
    assert liveness.deadline == 180.0
    liveness.hold(Hold.PING_UNFLUSHED)
    liveness.release(Hold.READING_PAUSED, 150.0)
    assert liveness.deadline is None


class AgainstTheText(RuleBasedStateMachine):
    """Any order of calls, beside a model that keeps a list of pings instead of two numbers."""

    INTERVAL = 60.0
    LIMIT = 5

    def __init__(self):
        super().__init__()
        self.now = 17.0
        self.liveness = Liveness(self.INTERVAL, self.LIMIT, self.now)
        self.since = self.now  # of the clock's last start or the last ping
        self.all_pings = []
        self.open_pings = []
        self.held = set()
        self.lost = False

    @rule(seconds=st.sampled_from([0.0, 0.5, 59.0, 60.0, 61.0, 600.0]))
    def time_passes(self, seconds):
        self.now += seconds

    @rule()
    def tick(self):
        expected = None
        if not self.lost and not self.held and self.now >= self.since + self.INTERVAL:
            if len(self.open_pings) == self.LIMIT:
                self.lost = True
            else:
                expected = counter(len(self.all_pings) + 1)
                self.all_pings.append(expected)
                self.open_pings.append(expected)
                self.since = self.now
        assert self.liveness.tick(self.now) == expected

    @precondition(lambda self: self.all_pings)
    @rule(data=st.data())
    def pong(self, data):
        self.any_pong(data.draw(st.sampled_from(self.all_pings)))

    @rule(payload=st.binary(max_size=9) | st.integers(0, 12).map(counter))
    def any_pong(self, payload):
        if payload in self.open_pings:
            del self.open_pings[: self.open_pings.index(payload) + 1]
        self.liveness.pong(payload)

    @rule(reason=st.sampled_from([Hold.READING_PAUSED, Hold.PING_UNFLUSHED]))
    def hold(self, reason):
        self.held.add(reason)
        self.liveness.hold(reason)

    @rule(reason=st.sampled_from([Hold.READING_PAUSED, Hold.PING_UNFLUSHED]))
    def release(self, reason):
        if reason in self.held and not self.lost:
            self.held.remove(reason)
            if not self.held:
                self.open_pings.clear()
                self.since = self.now
        self.liveness.release(reason, self.now)

    @invariant()
    def agrees(self):
        assert self.liveness.lost is self.lost
        assert self.liveness.unanswered == len(self.open_pings)
        stands = self.lost or self.held
        assert self.liveness.deadline == (None if stands else self.since + self.INTERVAL)


TestAgainstTheText = AgainstTheText.TestCase
