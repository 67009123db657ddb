"""The life of a stream as a table: states and events, the next state, and the action."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum, auto
from types import MappingProxyType
from typing import Final


class SessionState(StrEnum):
    #: Both directions are open.
    RELAYING = "Relaying"
    #: The client's input has ended; the container does not know it, and may still answer.
    AWAITING = "Awaiting"
    #: The container has our Close(1000); its frames go on until its own.
    CLOSING = "Closing"
    #: The cause is named; the legs are closing.
    ENDED = "Ended"


class SessionEvent(StrEnum):
    """An event in the life of a stream: from a leg, from a timer, or from the gateway."""

    PART_FROM_CLIENT = "a part from the client"
    INPUT_ENDED_CLOSE_NOW = "the input ended, Close at once"
    INPUT_ENDED_CLOSE_LATER = "the input ended, Close later"
    CLIENT_FINISHED = "the client finished"
    CLIENT_GONE = "the client left"
    CLIENT_FAILED = "a fault of the client"
    CLIENT_BLOCKED = "the client takes no more"
    CLIENT_DRAINED = "the client takes more"
    CLIENT_STALLED = "the client stalled"
    PART_FROM_CONTAINER = "a part from the container"
    CONTAINER_CLOSED = "a Close from the container"
    CONTAINER_FAILED = "the container broke RFC 6455"
    CONTAINER_LOST = "the container's connection ended"
    CONTAINER_UNRESPONSIVE = "the container answers no ping"
    CONTAINER_BLOCKED = "the container takes no more"
    CONTAINER_DRAINED = "the container takes more"
    CONTAINER_STALLED = "the container stalled"
    CONTAINER_SILENT = "the container is silent"
    LIFETIME_OVER = "the lifetime is over"
    GATEWAY_DRAINING = "the gateway stops"
    GATEWAY_FAILED = "a fault of the gateway"


class SessionAction(Enum):
    NOTHING = auto()
    #: Pass the part to the other leg.
    RELAY = auto()
    #: The same; the container's silence begins anew.
    RELAY_TAIL = auto()
    #: The same; ``input_end = "close"`` might have lost the part.
    RELAY_SAVED = auto()
    #: Watch for the container's silence.
    AWAIT = auto()
    #: Give the container Close(1000), and watch for its silence.
    CLOSE = auto()
    #: Do not read the other leg.
    PAUSE = auto()
    #: Read the other leg again.
    RESUME = auto()
    #: End the stream, with the event's ending in ``ends.py``.
    END = auto()
    #: End it: the container has closed by itself, after the client's input had ended.
    END_AWAITED = auto()
    #: End it: the container has answered our Close.
    END_ANSWERED = auto()


#: States in which a stream is not at its end.
OPEN: Final = (SessionState.RELAYING, SessionState.AWAITING, SessionState.CLOSING)

#: Events that end every open stream (rows 1.5-3 to 1.5-10).
_ENDING: Final = (
    SessionEvent.CLIENT_FINISHED,
    SessionEvent.CLIENT_GONE,
    SessionEvent.CLIENT_FAILED,
    SessionEvent.CLIENT_STALLED,
    SessionEvent.CONTAINER_FAILED,
    SessionEvent.CONTAINER_LOST,
    SessionEvent.CONTAINER_UNRESPONSIVE,
    SessionEvent.CONTAINER_STALLED,
    SessionEvent.LIFETIME_OVER,
    SessionEvent.GATEWAY_DRAINING,
    SessionEvent.GATEWAY_FAILED,
)

#: Events of timers that the end of a stream stops.
_TIMERS: Final = frozenset(
    {
        SessionEvent.CLIENT_STALLED,
        SessionEvent.CONTAINER_STALLED,
        SessionEvent.CONTAINER_SILENT,
        SessionEvent.LIFETIME_OVER,
    }
)

Follows = tuple[SessionState, SessionAction]


def _table() -> dict[tuple[SessionState, SessionEvent], Follows]:
    state, event, action = SessionState, SessionEvent, SessionAction
    table = {
        (state.RELAYING, event.PART_FROM_CLIENT): (state.RELAYING, action.RELAY),
        (state.RELAYING, event.PART_FROM_CONTAINER): (state.RELAYING, action.RELAY),
        # Clauses 1.5-11 and 1.5-12.
        (state.RELAYING, event.INPUT_ENDED_CLOSE_LATER): (state.AWAITING, action.AWAIT),
        (state.RELAYING, event.INPUT_ENDED_CLOSE_NOW): (state.CLOSING, action.CLOSE),
        (state.RELAYING, event.CONTAINER_CLOSED): (state.ENDED, action.END),
        (state.AWAITING, event.PART_FROM_CONTAINER): (state.AWAITING, action.RELAY_SAVED),
        (state.AWAITING, event.CONTAINER_SILENT): (state.CLOSING, action.CLOSE),
        (state.AWAITING, event.CONTAINER_CLOSED): (state.ENDED, action.END_AWAITED),
        (state.CLOSING, event.PART_FROM_CONTAINER): (state.CLOSING, action.RELAY_TAIL),
        (state.CLOSING, event.CONTAINER_SILENT): (state.ENDED, action.END),
        (state.CLOSING, event.CONTAINER_CLOSED): (state.ENDED, action.END_ANSWERED),
    }
    for late in (state.AWAITING, state.CLOSING):
        table[late, event.PART_FROM_CLIENT] = (state.ENDED, action.END)  # row 1.5-10
        # HTTP/2 reports the end twice: by an event, and by END_STREAM.
        table[late, event.INPUT_ENDED_CLOSE_NOW] = (late, action.NOTHING)
        table[late, event.INPUT_ENDED_CLOSE_LATER] = (late, action.NOTHING)
    for each in OPEN:
        table |= {(each, ending): (state.ENDED, action.END) for ending in _ENDING}
        table[each, event.CLIENT_BLOCKED] = (each, action.PAUSE)
        table[each, event.CLIENT_DRAINED] = (each, action.RESUME)
        table[each, event.CONTAINER_BLOCKED] = (each, action.PAUSE)
        table[each, event.CONTAINER_DRAINED] = (each, action.RESUME)
    # The first end counts (clause 1.5-13); legs still report their ends.
    table |= {
        (state.ENDED, each): (state.ENDED, action.NOTHING)
        for each in SessionEvent
        if each not in _TIMERS
    }
    return table


#: The next state and the action, by state and event; a pair that is not listed cannot occur.
TRANSITIONS: Final[Mapping[tuple[SessionState, SessionEvent], Follows]] = MappingProxyType(_table())


def follows(state: SessionState, event: SessionEvent) -> Follows:
    """Return the state that follows, and the action.

    Raises:
        ValueError: the event cannot occur in this state.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise ValueError(f"a stream in the state {state} cannot have this event: {event}") from None
