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
    found = [state]
    for each in found:
        found += {new for (old, _), new in TRANSITIONS.items() if old == each} - {*found}
    return {*found}


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


def test_what_is_out_of_reach_comes_back_by_a_ping_or_is_replaced():
    after_it = {why: new for (old, why), new in TRANSITIONS.items() if old == "Unreachable"}
    assert after_it == {
        Happening.READY: InstanceState.IN_SERVICE,
        Happening.ENDED: InstanceState.FAILED,
        Happening.UNHEALTHY: InstanceState.DRAINING,
        Happening.TOLD_TO_STOP: InstanceState.DRAINING,
    }


def test_what_cannot_happen_is_refused():
    with pytest.raises(
        ValueError, match="in the state Stopped cannot have this event: /ping answered"
    ):
        after(InstanceState.STOPPED, Happening.READY)
