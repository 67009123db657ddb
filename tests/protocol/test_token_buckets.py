from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.token_buckets import Allowance, TokenBucket


@pytest.fixture(autouse=True)
def _no_leaks():
    """No loop runs here."""


def test_so_many_at_once_and_so_many_a_second_after_that():
    bucket = TokenBucket(3, 2, now=10)
    assert [bucket.take(10) for _ in range(4)] == [True, True, True, False]
    assert [bucket.take(10.5), bucket.take(10.5)] == [True, False]
    assert [bucket.take(11.5) for _ in range(3)] == [True, True, False]


def test_it_never_holds_more_than_at_the_beginning():
    bucket = TokenBucket(2, 100, now=0)
    assert [bucket.take(1000) for _ in range(3)] == [True, True, False]


def test_a_clock_that_goes_back_gives_nothing():
    bucket = TokenBucket(1, 1, now=10)
    assert bucket.take(10)
    assert not bucket.take(5)
    assert bucket.take(11)


@given(st.lists(st.floats(0, 0.5), min_size=1, max_size=200), st.integers(1, 10), st.floats(0.1, 9))
def test_no_more_than_burst_and_rate_allow(pauses, burst, rate):
    bucket = TokenBucket(burst, rate, now=0)
    now, taken = 0.0, 0
    for pause in pauses:
        now += pause
        taken += bucket.take(now)
        assert taken <= burst + rate * now + 1e-6


def test_an_allowance_is_overdrawn_until_what_is_owed_has_come_back():
    allowance = Allowance(3, 2, now=10)
    allowance.draw(3, 10)
    assert allowance.overdrawn_for(10) == 0
    allowance.draw(5, 10)
    assert allowance.overdrawn_for(10) == 2.5
    assert allowance.overdrawn_for(12) == 0.5
    assert allowance.overdrawn_for(12.5) == 0
    allowance.draw(1, 12.5)
    assert allowance.overdrawn_for(12.5) == 0.5


def test_an_allowance_never_holds_more_than_at_the_beginning():
    allowance = Allowance(3, 2, now=0)
    allowance.draw(-5, 0)
    allowance.draw(5, 100)
    assert allowance.overdrawn_for(100) == 1


def test_an_allowance_owes_no_more_than_its_debt():
    allowance = Allowance(3, 2, now=0, debt=10)
    allowance.draw(1000, 0)
    assert allowance.overdrawn_for(0) == 5


@given(st.lists(st.tuples(st.floats(0, 0.5), st.floats(0, 3))), st.floats(0, 9), st.floats(0.1, 9))
def test_who_waits_as_long_as_an_allowance_says_spends_no_more_than_it_allows(steps, burst, rate):
    """But for what was spent last."""
    allowance = Allowance(burst, rate, now=0)
    now = spent = 0.0
    for pause, amount in steps:
        now += pause + allowance.overdrawn_for(now + pause)
        assert spent <= burst + rate * now + 1e-3
        allowance.draw(amount, now)
        spent += amount
