"""The evidence of a check: the bytes that pass on its connections while it is tried."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

#: Bytes that are kept of one step, and steps that are kept of one exchange.
MAX_KEPT_BYTES: Final = 64
MAX_STEPS: Final = 200

#: Bytes that are kept of an HTTP head. Most wrong answers are wrong in a header.
MAX_KEPT_HEAD: Final = 1024

#: The side that did a step. ``failed`` is no side: the step marks where a clause was broken.
NotedBy = Literal["sent", "received", "meanwhile", "failed"]


@dataclass(frozen=True, slots=True)
class Step:
    """One event on a connection.

    Attributes:
        at: seconds since the exchange began.
        what: the event in words: ``text FIN 5 bytes``, ``HTTP/1.1 200 OK``.
        data: the first bytes that were sent.
        size: how many bytes were sent.
    """

    at: float
    side: NotedBy
    what: str
    data: bytes = b""
    size: int = 0


@dataclass(slots=True)
class NotedExchange:
    """The events of one connection, from its beginning; ``clock`` gives seconds."""

    title: str
    clock: Callable[[], float] = time.monotonic
    steps: list[Step] = field(default_factory=list)
    left_out: int = 0
    _began: float = 0.0

    def __post_init__(self) -> None:
        self._began = self.clock()

    @property
    def latest(self) -> float:
        """The time of the last event, by the exchange's clock."""
        return self._began + (self.steps[-1].at if self.steps else 0.0)

    @property
    def failed(self) -> bool:
        return bool(self.steps) and self.steps[-1].side == "failed"

    def note(self, side: NotedBy, what: str, data: bytes = b"", head: int = 0) -> None:
        """Record a step. Steps beyond :data:`MAX_STEPS` are only counted.

        Args:
            data: the bytes that were sent; only the first are kept.
            head: how many of the bytes are an HTTP head; more of a head is kept.
        """
        if len(self.steps) >= MAX_STEPS:
            self.left_out += 1
            return
        at = self.clock() - self._began
        kept = min(head, MAX_KEPT_HEAD) + MAX_KEPT_BYTES
        self.steps.append(Step(at, side, what, bytes(data[:kept]), len(data)))

    def fail(self, what: str) -> None:
        """Record the fault as the last step, even beyond :data:`MAX_STEPS`."""
        self.steps.append(Step(self.clock() - self._began, "failed", what))


def shown(data: bytes, most: int = 32) -> str:
    """Show bytes in a message: as text if they are printable, else in hexadecimal."""
    cut = data[:most]
    plain = all(byte in b"\r\n\t" or 0x20 <= byte < 0x7F for byte in cut)
    body = repr(cut.decode("ascii")) if plain else cut.hex(" ")
    return f"{body}… ({len(data)} bytes)" if len(data) > most else body
