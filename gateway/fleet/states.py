"""The life of an instance as a table: its states, and the events that change them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class InstanceState(StrEnum):
    PENDING = "Pending"
    STARTING = "Starting"
    IN_SERVICE = "InService"
    UNREACHABLE = "Unreachable"
    DRAINING = "Draining"
    STOPPED = "Stopped"
    FAILED = "Failed"


class Happening(StrEnum):
    LAUNCHED = "launched"
    READY = "/ping answered with 200"
    NOT_STARTED = "could not be started, or not in time"
    ENDED = "its container ended by itself"
    UNREACHABLE = "its place does not answer"
    UNHEALTHY = "missed its pings"
    TOLD_TO_STOP = "told to stop"
    EMPTIED = "nothing is open on it, and its container has ended"


class StartFailure(StrEnum):
    NOT_LAUNCHED = "no container was launched"
    NO_ENGINE = "there is no engine to launch a container"
    ENDED = "its container ended by itself before it was ready"
    NOT_READY = "its container was not ready in time"


#: The next state by state and event; a pair that is not listed cannot occur.
TRANSITIONS: Final[Mapping[tuple[InstanceState, Happening], InstanceState]] = MappingProxyType(
    {
        (InstanceState.PENDING, Happening.LAUNCHED): InstanceState.STARTING,
        (InstanceState.PENDING, Happening.NOT_STARTED): InstanceState.FAILED,
        (InstanceState.PENDING, Happening.TOLD_TO_STOP): InstanceState.STOPPED,
        (InstanceState.STARTING, Happening.READY): InstanceState.IN_SERVICE,  # clause 1.1-2
        (InstanceState.STARTING, Happening.NOT_STARTED): InstanceState.FAILED,  # clause 1.1-3
        (InstanceState.STARTING, Happening.ENDED): InstanceState.FAILED,
        (InstanceState.STARTING, Happening.TOLD_TO_STOP): InstanceState.DRAINING,
        (InstanceState.IN_SERVICE, Happening.ENDED): InstanceState.FAILED,
        (InstanceState.IN_SERVICE, Happening.UNREACHABLE): InstanceState.UNREACHABLE,
        (InstanceState.IN_SERVICE, Happening.UNHEALTHY): InstanceState.DRAINING,
        (InstanceState.IN_SERVICE, Happening.TOLD_TO_STOP): InstanceState.DRAINING,
        (InstanceState.UNREACHABLE, Happening.READY): InstanceState.IN_SERVICE,
        (InstanceState.UNREACHABLE, Happening.ENDED): InstanceState.FAILED,
        (InstanceState.UNREACHABLE, Happening.UNHEALTHY): InstanceState.DRAINING,
        (InstanceState.UNREACHABLE, Happening.TOLD_TO_STOP): InstanceState.DRAINING,
        (InstanceState.DRAINING, Happening.TOLD_TO_STOP): InstanceState.DRAINING,
        (InstanceState.DRAINING, Happening.EMPTIED): InstanceState.STOPPED,
    }
)

#: States in which an instance's life is over.
OVER: Final = frozenset({InstanceState.STOPPED, InstanceState.FAILED})


def after(state: InstanceState, happening: Happening) -> InstanceState:
    """Return the state that follows.

    Raises:
        ValueError: the event cannot occur in this state.
    """
    try:
        return TRANSITIONS[state, happening]
    except KeyError:
        raise ValueError(
            f"an instance in the state {state} cannot have this event: {happening}"
        ) from None
