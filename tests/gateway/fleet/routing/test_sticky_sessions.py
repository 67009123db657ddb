"""partway.gateway.fleet.routing.sticky_sessions: how many are remembered, and of whom."""

from __future__ import annotations

import math

from partway.gateway.fleet.routing.sticky_sessions import StickySession, StickySessions


def of(owner, *ids):
    return [StickySession(owner, each) for each in ids]


def known(sessions, *asked):
    return "".join(each.id for each in asked if sessions.get(each) is not None)


def test_what_was_seen_longest_ago_goes_and_never_anothers():
    sessions = StickySessions(6)
    mine, others = of("me", *"xyz"), of("other", *"abcdef")
    for each in (*mine, *others, others[3], *of("other", "g")):
        sessions.remember(each, "i", math.inf)
    assert known(sessions, *mine) == "xyz"
    assert known(sessions, *others, *of("other", "g")) == "dfg"
    assert len(sessions) == 6


def test_where_all_are_too_many_it_is_one_of_those_of_who_has_most():
    sessions = StickySessions(4)
    many, few, one = of("many", *"ab"), of("few", *"c"), of("one", "d", "e")
    for each in (*many, *few, *one):
        sessions.remember(each, "i", math.inf)
    assert known(sessions, *few, *one) == "cde"
    assert known(sessions, *many) == "b"


def test_a_session_is_remembered_once_and_forgotten_whole():
    sessions = StickySessions(4)
    (session,) = of("me", "s")
    sessions.remember(session, "a", 1.0)
    sessions.remember(session, "b", 2.0)
    assert (sessions.get(session), len(sessions)) == (("b", 2.0), 1)
    sessions.forget(session)
    sessions.forget(session)
    assert (sessions.get(session), len(sessions)) == (None, 0)
    assert not sessions._of_owners
