"""partway.gateway.fleet.states: the table of an instance's life."""

from __future__ import annotations

import pytest

from partway.gateway.fleet.states import (
    OVER,
    TRANSITIONS,
    Happening,
    InstanceState,
    after,
)


def reachable(state):
    found = {state}
    for each in found.copy():
        for (old, _), new in TRANSITIONS.items():
            if old == each and new not in found:
                found |= {new} | reachable(new) if new != state else {new}
    return found


def test_every_state_can_be_reached_and_every_life_can_end():
    assert reachable(InstanceState.PENDING) == set(InstanceState)
    for state in InstanceState:
        assert reachable(state) & OVER


def test_nothing_follows_an_end():
    assert not [state for state, _ in TRANSITIONS if state in OVER]


def test_only_what_has_answered_a_ping_is_in_service():
    """Clause 1.1-3: not passing /ping is a failed launch."""
    leading = {why for (_, why), new in TRANSITIONS.items() if new == InstanceState.IN_SERVICE}
    assert leading == {Happening.READY}


@pytest.mark.parametrize("state", [state for state in InstanceState if state not in OVER])
def test_whatever_lives_can_be_told_to_stop(state):
    assert after(state, Happening.TOLD_TO_STOP) in {InstanceState.DRAINING, InstanceState.STOPPED}


def test_what_cannot_happen_is_refused():
    with pytest.raises(
        ValueError, match="in the state Stopped cannot have this event: /ping answered"
    ):
        after(InstanceState.STOPPED, Happening.READY)
