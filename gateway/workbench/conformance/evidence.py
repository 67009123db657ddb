"""What went over the wire while a check was tried: the check's evidence."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

#: Bytes of one step that are kept, and steps of one exchange.
MAX_KEPT_BYTES: Final = 64
MAX_STEPS: Final = 200

#: Bytes of an HTTP head that are kept: headers are what most answers are wrong in.
MAX_KEPT_HEAD: Final = 1024

#: Who did a step. ``failed`` is nobody: at that step it was seen that a clause is not kept.
NotedBy = Literal["sent", "received", "meanwhile", "failed"]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened.

    Attributes:
        at: seconds since the exchange began.
        side: who did it.
        what: what happened, in words: ``text FIN 5 bytes``, ``HTTP/1.1 200 OK``.
        data: the beginning of the bytes that were sent.
        size: how many bytes were sent.
    """

    at: float
    side: NotedBy
    what: str
    data: bytes = b""
    size: int = 0


@dataclass(slots=True)
class NotedExchange:
    """What happened on one connection, from its beginning.

    Args:
        title: what the connection was for.
        clock: gives the time, in seconds.
    """

    title: str
    clock: Callable[[], float] = time.monotonic
    steps: list[Step] = field(default_factory=list)
    left_out: int = 0
    _began: float = 0.0

    def __post_init__(self) -> None:
        self._began = self.clock()

    @property
    def latest(self) -> float:
        """When something last happened, by the exchange's clock."""
        return self._began + (self.steps[-1].at if self.steps else 0.0)

    @property
    def failed(self) -> bool:
        """Whether it was on this connection that something was wrong."""
        return bool(self.steps) and self.steps[-1].side == "failed"

    def note(self, side: NotedBy, what: str, data: bytes = b"", head: int = 0) -> None:
        """Write a step down; of too many steps the last are only counted.

        Args:
            side: who did it.
            what: what happened, in words.
            data: the bytes that were sent, of which the beginning is kept.
            head: how many of the bytes are an HTTP head, of which more is kept.
        """
        if len(self.steps) >= MAX_STEPS:
            self.left_out += 1
            return
        at = self.clock() - self._began
        kept = min(head, MAX_KEPT_HEAD) + MAX_KEPT_BYTES
        self.steps.append(Step(at, side, what, bytes(data[:kept]), len(data)))

    def fail(self, what: str) -> None:
        """Write down what was wrong, as the last step however many there are."""
        self.steps.append(Step(self.clock() - self._began, "failed", what))


def shown(data: bytes, most: int = 32) -> str:
    """Bytes for a message: as text if they are printable, else in hexadecimal."""
    cut = data[:most]
    plain = all(byte in b"\r\n\t" or 0x20 <= byte < 0x7F for byte in cut)
    body = repr(cut.decode("ascii")) if plain else cut.hex(" ")
    return f"{body}… ({len(data)} bytes)" if len(data) > most else body
