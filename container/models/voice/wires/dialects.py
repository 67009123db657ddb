"""Common parts of the dialects of the default path."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from partway.container.models.openai_events import json_of
from partway.container.models.voice.limits import MAX_INSTRUCTIONS
from partway.container.models.voice.wires.realtime_events import event
from partway.container.models.voice.wires.realtime_faults import Members, RealtimeFault
from partway.container.models.voice.wires.realtime_messages import ClientEvent, event_of


class Dialect(Protocol):
    """A stream whose first message has been read."""

    async def run(self, messages: AsyncIterator[str | bytes]) -> None:
        """Serve the stream to its end.

        Args:
            messages: all of the client's, the first one too.
        """


async def obey_all(
    messages: AsyncIterator[str | bytes],
    obey: Callable[[ClientEvent], Awaitable[None]],
    refuse: Callable[[RealtimeFault], Awaitable[None]],
    ends: Collection[str] = (),
) -> bool:
    """Obey a client's messages; one that is refused changes nothing, and the next one follows.

    Args:
        messages: the client's.
        obey: obeys a message, or raises :class:`RealtimeFault`.
        refuse: tells the client of a refusal.
        ends: types of the messages that end the session.

    Returns:
        Whether the input has ended; False if such a message came.
    """
    async for raw in messages:
        try:
            message = event_of(raw)
            if message.kind in ends:
                return False
            await obey(message)
        except RealtimeFault as fault:
            await refuse(fault)
    return True


def nvidia_error(kind: str, code: str, reason: str) -> str:
    """Return an ``error`` event as NVIDIA's clients read it."""
    error = {"type": kind, "code": code, "message": reason}
    return event("error", message=reason, error=error)


def kept_session(members: Members) -> Mapping[str, Any]:
    """Return the session of NVIDIA's dialects, which answers repeat.

    Raises:
        RealtimeFault: it is too long.
    """
    session: Mapping[str, Any] = members.value("session") or {}
    if (size := len(json_of(session))) > 2 * MAX_INSTRUCTIONS:
        raise RealtimeFault(
            f"session has {size} bytes of JSON; it must have at most {2 * MAX_INSTRUCTIONS}",
            param="session",
        )
    return session


def unknown_type(message: ClientEvent, known: Sequence[str]) -> RealtimeFault:
    """Return the refusal of a message whose type is not known."""
    return RealtimeFault(
        f"type is {message.kind[:60]!r}; it must be one of {', '.join(known)}",
        code="unknown_event",
        param="type",
    )
