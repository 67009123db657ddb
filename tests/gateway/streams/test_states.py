"""partway.gateway.streams.states: the table of a stream's life."""

from __future__ import annotations

import pytest

from partway.gateway.streams.states import (
    OPEN,
    TRANSITIONS,
    SessionAction,
    SessionEvent,
    SessionState,
    follows,
)

ENDS = {SessionAction.END, SessionAction.END_AWAITED, SessionAction.END_ANSWERED}


def test_every_state_can_be_reached_and_every_stream_can_end():
    assert set(SessionState) == {*OPEN, SessionState.ENDED}
    reached = {SessionState.RELAYING}
    for _ in SessionState:
        reached |= {new for (old, _), (new, _) in TRANSITIONS.items() if old in reached}
    assert reached == set(SessionState)
    ending = {old for (old, _), (new, _) in TRANSITIONS.items() if new is SessionState.ENDED}
    assert ending == set(SessionState)


def test_every_event_and_every_action_has_its_row():
    assert {event for _, event in TRANSITIONS} == set(SessionEvent)
    assert {action for _, action in TRANSITIONS.values()} == set(SessionAction)


@pytest.mark.clause("1.5-13")
def test_nothing_follows_an_end():
    after = {row for (state, _), row in TRANSITIONS.items() if state is SessionState.ENDED}
    assert after == {(SessionState.ENDED, SessionAction.NOTHING)}


@pytest.mark.clause("1.5-13")
def test_a_stream_ends_by_an_ending_and_only_so():
    for (old, _), (new, action) in TRANSITIONS.items():
        assert (new is SessionState.ENDED and old in OPEN) is (action in ENDS)


@pytest.mark.clause("1.5-11", "1.5-12")
def test_only_the_inputs_end_and_silence_behind_it_give_the_container_its_close():
    closing = {row for row, (_, action) in TRANSITIONS.items() if action is SessionAction.CLOSE}
    assert closing == {
        (SessionState.RELAYING, SessionEvent.INPUT_ENDED_CLOSE_NOW),
        (SessionState.AWAITING, SessionEvent.CONTAINER_SILENT),
    }


def test_what_cannot_happen_is_refused():
    """Silence counts behind the input's end; the end stops all timers."""
    missing = {(state, event) for state in SessionState for event in SessionEvent} - {*TRANSITIONS}
    assert missing == {
        (SessionState.RELAYING, SessionEvent.CONTAINER_SILENT),
        (SessionState.ENDED, SessionEvent.CONTAINER_SILENT),
        (SessionState.ENDED, SessionEvent.CLIENT_STALLED),
        (SessionState.ENDED, SessionEvent.CONTAINER_STALLED),
        (SessionState.ENDED, SessionEvent.LIFETIME_OVER),
    }
    for state, event in missing:
        with pytest.raises(
            ValueError, match=f"in the state {state} cannot have this event: {event}"
        ):
            follows(state, event)
