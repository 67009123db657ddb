"""partway.gateway.http.highest_count: the highest of many counts, at any time."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.http.highest_count import Fullest


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=60))
def test_who_has_most_is_known_at_any_time(steps: list[tuple[str, bool]]) -> None:
    fullest, counts = Fullest[str](), Counter[str]()
    for who, grows in steps:
        counts[who] += 1 if grows or not counts[who] else -1
        fullest.has(who, counts[who])
        top = fullest.top()
        most = max(counts.values())
        assert (top is None) if most == 0 else (top is not None and counts[top] == most)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.booleans()), max_size=40))
def test_how_often_one_looks_makes_no_difference(steps: list[tuple[str, int, bool]]) -> None:
    always, seldom = Fullest[str](), Fullest[str]()
    for who, count, looks in steps:
        for each in (always, seldom):
            each.has(who, count)
        top = always.top()
        assert not looks or seldom.top() == top
    assert seldom.top() == always.top()


def test_who_has_come_and_gone_leaves_nothing() -> None:
    fullest = Fullest[int]()
    for who in range(100):
        fullest.has(who, 1)
        fullest.has(who, 0)
    assert not fullest._changed


def test_of_several_it_is_the_one_that_has_had_so_many_for_longest() -> None:
    fullest = Fullest[str]()
    assert fullest.top() is None
    for who, count in (("a", 2), ("b", 1), ("b", 2), ("a", 3), ("a", 2)):
        fullest.has(who, count)
    assert fullest.top() == "b"
    fullest.has("b", 0)
    assert fullest.top() == "a"
