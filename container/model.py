"""The interface that a model implements."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from container.stream import Stream


@dataclass(frozen=True, slots=True)
class Invocation:
    """A request to ``/invocations``.

    Attributes:
        content_type: of the body.
        length: of the body in bytes; None where it came chunked.
        body: its bytes as they arrive, chunk by chunk. A body that is too large, too slow or cut
            raises in the middle of it; let that pass, it becomes the right answer.
    """

    content_type: str
    length: int | None
    body: AsyncIterator[bytes]


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to an :class:`Invocation`.

    Attributes:
        content_type: of the body.
        length: of the body in bytes; None to send it chunked, one chunk for each item
            (clause 1.1-5).
        body: its bytes; asked for the next item once the client has taken most of what came before.
    """

    content_type: str
    length: int | None
    body: AsyncIterator[bytes]


class Model(Protocol):
    """A model. One object serves every request of a process, many at a time."""

    async def stream(self, stream: Stream) -> None:
        """Handle one bidirectional stream (clause 1.1-4).

        Returning closes it, with 1000 or with the client's own code; raising closes it with 1011.
        It is cancelled when the client is lost, and a few seconds after its input has ended.
        """

    async def invoke(self, invocation: Invocation) -> Reply:
        """Answer one request to ``/invocations`` (clause 1.1-2); raising answers 500."""
