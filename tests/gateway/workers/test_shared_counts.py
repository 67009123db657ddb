"""partway.gateway.workers.shared_counts: rows in one memory, as several processes see them."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

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


def test_names_that_have_gone_leave_no_trace(rows):
    """Else each search would look through all cells in reach."""
    names = [f"name {number}" for number in range(2000)]
    for each in names:
        rows[0].add(each, 1)
    for each in reversed(names[::2]):
        rows[0].add(each, -1)
    assert [rows[1].total(each) for each in names] == [0, 1] * 1000
    for each in names[1::2]:
        rows[0].add(each, -1)
    assert not any(rows[0]._mine)


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_a_name_behind_an_emptied_cell_is_found(rows, monkeypatch, order):
    """All three want the same cell, the last one of the row."""
    monkeypatch.setattr(rows[0], "_digest", lambda name: shared_counts._CELLS * (int(name) + 1) - 1)
    for each in rows[1:]:
        monkeypatch.setattr(each, "_digest", rows[0]._digest)
    left = {"0", "1", "2"}
    for name in sorted(left):
        rows[0].add(name, 5)
    for number in order:
        left.discard(str(number))
        rows[0].add(str(number), -5)
        assert {name for name in "012" if rows[1].total(name)} == left
    assert not any(rows[0]._mine)


def test_the_cells_of_a_name_are_no_clients_choice():
    with shared_rows(1) as (one,), shared_rows(1) as (other,):
        assert one._digest("a") != other._digest("a"), "by chance once in 2 ** 64 times"
        assert one._digest("a") == one._digest("a")


def test_a_full_row_counts_for_itself(rows, monkeypatch):
    monkeypatch.setattr(shared_counts, "_cells_of", lambda _: range(0, 4, 2))
    for name in "abc":
        rows[0].add(name, 1)
    assert [rows[0].total(name) for name in "abc"] == [1, 1, 1]
    assert [rows[1].total(name) for name in "abc"] == [1, 1, 0]
    rows[0].add("a", -1)
    rows[0].add("c", 1)
    assert rows[1].total("c") == 2
