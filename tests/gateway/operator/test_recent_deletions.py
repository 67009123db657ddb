"""partway.gateway.operator.recent_deletions: few at a time, and none after another process."""

from __future__ import annotations

from partway.gateway.operator.limits import DELETION_WINDOW
from partway.gateway.operator.recent_deletions import RecentDeletions, most_deletions
from tests.gateway.streams.fakes import FakeClock


def test_how_many():
    assert [most_deletions(count) for count in (0, 1, 19, 20, 100)] == [1, 1, 1, 2, 10]


def test_each_one_counts_for_a_while():
    clock = FakeClock()
    deletions = RecentDeletions(clock)
    assert deletions.next(20) <= clock.now
    deletions.count()
    clock.advance(1)
    assert deletions.next(20) <= clock.now
    deletions.count()
    assert deletions.next(20) == clock.now - 1 + DELETION_WINDOW
    deletions.take_back()
    assert deletions.next(20) <= clock.now
    assert deletions.next(19) == clock.now - 1 + DELETION_WINDOW
    clock.advance(DELETION_WINDOW - 1)
    assert deletions.next(19) <= clock.now


def test_after_another_process_none_follows_for_a_while():
    clock = FakeClock()
    deletions = RecentDeletions(clock)
    deletions.follow_another()
    assert deletions.next(100) == clock.now + DELETION_WINDOW
