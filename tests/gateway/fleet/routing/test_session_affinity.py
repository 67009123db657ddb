"""partway.gateway.fleet.routing.session_affinity: marks in ids of sessions, and ranks."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.containers.invocation_headers import is_session
from partway.gateway.fleet.routing.session_affinity import StickySession, mark_of

#: AWS's pattern: letters, digits and hyphens, none at an end.
IDS = st.from_regex(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,40}", fullmatch=True)


@given(IDS, st.text())
def test_a_marked_id_is_an_id_and_comes_back(text, instance):
    session = StickySession(text, mark_of(instance))
    assert is_session(session.for_client)
    assert len(session.for_client) == len(text) + len("-i0123456789")
    assert StickySession.of_client(session.for_client) == session


@pytest.mark.parametrize(
    "text", ["s", "s-i", "s-i012345678", "-i0123456789", "s-i0123456789a", "s-iABCDEFABCD", ""]
)
def test_any_other_id_is_the_containers_own(text):
    assert StickySession.of_client(text) == StickySession(text)
    assert StickySession(text).for_client == text


def test_a_mark_behind_a_mark_is_that_of_the_nearest_gateway():
    inner = StickySession("s", mark_of("inner")).for_client
    outer = StickySession(inner, mark_of("outer")).for_client
    assert StickySession.of_client(outer) == StickySession(inner, mark_of("outer"))


def test_an_instance_that_comes_moves_its_own_sessions_alone():
    before = [mark_of(each) for each in "abc"]
    after = [*before, mark_of("d")]
    sessions = [StickySession(f"s{number}") for number in range(400)]
    moved = Counter()
    for each in sessions:
        was, now = max(before, key=each.rank), max(after, key=each.rank)
        moved[now if was != now else ""] += 1
    assert set(moved) == {"", mark_of("d")}
    assert moved[mark_of("d")] == pytest.approx(100, abs=50)


def test_fractions_are_spread():
    tenths = Counter(int(StickySession(f"s{number}").fraction * 10) for number in range(1_000))
    assert set(tenths) == set(range(10))
    assert min(tenths.values()) > 50
