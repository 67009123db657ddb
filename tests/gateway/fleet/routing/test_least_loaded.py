"""partway.gateway.fleet.routing.least_loaded: who has least, at any time."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.fleet.routing.least_loaded import LeastLoaded

STEPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=60)


@given(STEPS, st.sets(st.integers(0, 5)))
def test_who_has_least_is_known_at_any_time(steps, but):
    least, counts = LeastLoaded(random.Random(1)), {}
    for who, count in steps:
        counts[who] = count
        least.has(who, count)
        assert counts[least.choose()] == min(counts.values())
        others = {each: count for each, count in counts.items() if each not in but}
        other = least.choose(but=but)
        assert (other is None) == (not others)
        if others:
            assert others[other] == min(others.values())


def test_nobody_is_chosen_of_none():
    least = LeastLoaded(random.Random(1))
    assert least.choose() is None
    assert least.choose(but={3}) is None


def test_ties_are_decided_at_random():
    least = LeastLoaded(random.Random(2))
    for each in "abcd":
        least.has(each, 3)
    least.has("e", 4)
    seen = Counter(least.choose() for _ in range(400))
    assert seen.keys() == set("abcd")
    assert min(seen.values()) > 60
