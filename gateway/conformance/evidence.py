"""What went over the wire while a check was tried: its evidence."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

#: Bytes of one step that are kept, and steps of one exchange.
MAX_KEPT_BYTES: Final = 64
MAX_STEPS: Final = 200

Side = Literal["sent", "received", "meanwhile"]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened.

    Attributes:
        at: seconds since the exchange began.
        side: who did it.
        what: in words: ``text FIN 5 bytes``, ``HTTP/1.1 200 OK``.
        data: the beginning of its bytes.
        size: of all of them.
    """

    at: float
    side: Side
    what: str
    data: bytes = b""
    size: int = 0


@dataclass(slots=True)
class Exchange:
    """One connection, from its beginning.

    Args:
        title: what was done on it.
        clock: seconds.
    """

    title: str
    clock: Callable[[], float] = time.monotonic
    steps: list[Step] = field(default_factory=list)
    left_out: int = 0
    _began: float = 0.0

    def __post_init__(self) -> None:
        self._began = self.clock()

    def note(self, side: Side, what: str, data: bytes = b"") -> None:
        """Write a step down; of too many the last are only counted."""
        if len(self.steps) >= MAX_STEPS:
            self.left_out += 1
            return
        at = self.clock() - self._began
        self.steps.append(Step(at, side, what, bytes(data[:MAX_KEPT_BYTES]), len(data)))


def shown(data: bytes, most: int = 32) -> str:
    """Bytes for a message: as text if they are printable, else in hexadecimal."""
    cut = data[:most]
    plain = all(byte in b"\r\n\t" or 0x20 <= byte < 0x7F for byte in cut)
    body = repr(cut.decode("ascii")) if plain else cut.hex(" ")
    return f"{body}… ({len(data)} bytes)" if len(data) > most else body
