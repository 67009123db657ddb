"""Common parts of the dialects of the default path."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from partway.container.models.voice.wires.realtime_faults import RealtimeFault
from partway.container.models.voice.wires.realtime_messages import ClientEvent


class Dialect(Protocol):
    """A stream whose first message has been read."""

    async def run(self, messages: AsyncIterator[str | bytes]) -> None:
        """Serve the stream to its end.

        Args:
            messages: all of the client's, the first one too.
        """


def unknown_type(event: ClientEvent, known: Sequence[str]) -> RealtimeFault:
    """Return the refusal of a message whose type is not known."""
    return RealtimeFault(
        f"type is {event.kind[:60]!r}; it must be one of {', '.join(known)}",
        code="unknown_event",
        param="type",
    )
