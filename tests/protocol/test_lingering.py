"""A way out that ends: how many looks it lives for, and what ends it (clause 1.5-13)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.limits import FINISH_TIMEOUT, LINGER_TIMEOUT
from partway.protocol.lingering import Lingering

pytestmark = pytest.mark.clause("1.5-13")

sizes = st.integers(0, 1 << 30)


def lived(lingering: Lingering, unsent: Iterable[int]) -> int:
    """Looks that it outlives; the first one that it does not is its end."""
    looks = 0
    for size in unsent:
        if not lingering.look(size):
            return looks
        looks += 1
    return looks


@given(sizes, st.lists(sizes, max_size=20))
def test_it_lives_as_long_as_fewer_bytes_are_unsent_at_each_look(first, later):
    expected = 0
    for before, now in zip([first, *later], later, strict=False):
        if now >= before:
            break
        expected += 1
    assert lived(Lingering(first), later) == expected


@given(sizes, st.integers(0, 50))
def test_without_progress_it_ends_at_the_next_look(left, shrinking):
    lingering = Lingering(left + shrinking)
    assert lived(lingering, range(left + shrinking - 1, left - 1, -1)) == shrinking
    assert not lingering.look(left)


def test_growing_is_no_progress():
    assert not Lingering(100).look(101)


@pytest.mark.parametrize("unsent", [0, 1])
def test_one_that_waits_for_something_else_has_one_interval(unsent):
    """A peer's Close, say: nothing of ours has to shrink for it."""
    assert not Lingering(unsent).look(unsent)


@pytest.mark.parametrize(
    ("interval", "looks"),
    [
        (None, FINISH_TIMEOUT / LINGER_TIMEOUT),
        (LINGER_TIMEOUT, FINISH_TIMEOUT / LINGER_TIMEOUT),
        (100.0, 3),
        (FINISH_TIMEOUT, 1),
        (7 * FINISH_TIMEOUT, 1),
    ],
)
def test_however_steadily_they_shrink_it_ends(interval, looks):
    """At the last look that FINISH_TIMEOUT has room for, so it outlives all looks before."""
    lingering = Lingering(1 << 30, interval)
    assert lived(lingering, range((1 << 30) - 1, 0, -1)) == looks - 1
    assert lingering.interval == (interval or LINGER_TIMEOUT)


def test_the_limit_is_the_one_of_the_moment(monkeypatch):
    monkeypatch.setattr("partway.protocol.limits.LINGER_TIMEOUT", 0.5)
    assert Lingering(1).interval == 0.5
