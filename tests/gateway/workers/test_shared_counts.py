"""partway.gateway.workers.shared_counts: rows in one memory, as several processes see them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partway.gateway.workers import shared_counts
from tests.gateway.workers.rows import shared_rows

ROWS = 3


@pytest.fixture
def rows():
    with shared_rows(ROWS) as rows:
        yield rows


NAMES = st.sampled_from(["", "a", "b", "streams of a"])
STEPS = st.lists(st.tuples(st.integers(0, ROWS - 1), NAMES, st.integers(-3, 3)))


@settings(max_examples=50)
@given(steps=STEPS)
def test_all_see_the_sum(steps):
    with shared_rows(ROWS) as rows:
        expected = Counter()
        for row, name, number in steps:
            rows[row].add(name, number)
            expected[name] += number
        for each in rows:
            assert {name: each.total(name) for name in expected} == dict(expected)


def test_others_are_all_but_this_one(rows):
    for number, each in enumerate(rows, start=1):
        each.add("a", number)
    assert [each.others("a") for each in rows] == [5, 4, 3]
    assert rows[0].others("b") == 0


def test_a_dead_process_no_longer_counts(rows):
    rows[1].add("a", 5)
    rows[2].add("a", 2)
    rows[0].clear(1)
    assert rows[0].total("a") == 2
    again = rows[1]
    again.add("b", 1)
    assert rows[0].total("b") == 1


def test_names_that_have_gone_leave_room(rows):
    """More names than a row has cells, one after the other."""
    for number in range(3 * shared_counts._CELLS):
        rows[0].add(f"name {number}", 1)
        rows[0].add(f"name {number}", -1)
    rows[0].add("last", 1)
    assert rows[1].total("last") == 1
    assert rows[0]._own == {"last": 1}


def test_a_full_row_counts_for_itself(rows, monkeypatch):
    monkeypatch.setattr(shared_counts, "_cells_of", lambda _: range(0, 4, 2))
    for name in "abc":
        rows[0].add(name, 1)
    assert [rows[0].total(name) for name in "abc"] == [1, 1, 1]
    assert [rows[1].total(name) for name in "abc"] == [1, 1, 0]
    rows[0].add("a", -1)
    rows[0].add("c", 1)
    assert rows[1].total("c") == 2
