"""A reader of the platform's frames that refuses no mistake, so that checks can see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from websockets.utils import apply_mask

from partway.gateway.workbench.conformance.verdict import Broken
from partway.protocol.websocket.frames import Opcode

#: Most bytes of one frame.
MAX_FRAME: Final = 32 << 20

_NAMES: Final = {int(opcode): opcode.name.lower() for opcode in Opcode}
#: Bytes that each long form of a length adds to a frame's head, and the least length that needs it.
_FORMS: Final = {126: (2, 126), 127: (8, 1 << 16)}


@dataclass(frozen=True, slots=True)
class SeenFrame:
    """One frame as it was on the wire.

    Attributes:
        at: when the frame's last byte came, in seconds on the container's clock.
        fin: the frame's first bit.
        rsv: the three bits behind FIN, as a number.
        opcode: any of the sixteen.
        key: the masking key; empty where the frame was not masked.
        payload: the payload, unmasked.
        shortest: whether the payload's length was written in the shortest form.
    """

    at: float
    fin: bool
    rsv: int
    opcode: int
    key: bytes
    payload: bytes
    shortest: bool = True

    @property
    def is_data(self) -> bool:
        return self.opcode < Opcode.CLOSE

    @property
    def close_code(self) -> int | None:
        """The code of a Close; None where the Close has no code."""
        return int.from_bytes(self.payload[:2], "big") if len(self.payload) > 1 else None

    def __str__(self) -> str:
        name = _NAMES.get(self.opcode, f"opcode {self.opcode:#x}")
        if self.opcode == Opcode.CLOSE:
            name = f"Close {'without a code' if self.close_code is None else self.close_code}"
        return f"{name}{' FIN' if self.fin else ', no FIN'}, {len(self.payload)} bytes"


class FrameReader:
    """Bytes in, frames out, right or wrong.

    Only an unfinished frame is held: at most :data:`MAX_FRAME` bytes and one read.
    """

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes, at: float) -> list[SeenFrame]:
        """Take bytes read at ``at`` (seconds), and return the frames that end in them.

        Raises:
            Broken: a frame is too long to be held.
        """
        self._held += data
        found = []
        start = 0
        while (taken := self._next(start, at)) is not None:
            seen, start = taken
            found.append(seen)
        del self._held[:start]
        return found

    @property
    def unfinished(self) -> int:
        """Bytes of a frame whose end has not come."""
        return len(self._held)

    def _next(self, start: int, at: float) -> tuple[SeenFrame, int] | None:
        held = self._held
        if len(held) < start + 2:
            return None
        first, second = held[start], held[start + 1]
        length, least = second & 0x7F, 0
        begin = start + 2
        if length in _FORMS:
            size, least = _FORMS[length]
            if len(held) < begin + size:
                return None
            length = int.from_bytes(held[begin : begin + size], "big")
            begin += size
        if length > MAX_FRAME:
            raise Broken(f"the platform announces a frame of {length} bytes")
        key_end = begin + (4 if second & 0x80 else 0)
        end = key_end + length
        if len(held) < end:
            return None
        key = bytes(held[begin:key_end])
        payload = bytes(held[key_end:end])
        seen = SeenFrame(
            at=at,
            fin=bool(first & 0x80),
            rsv=first >> 4 & 7,
            opcode=first & 0xF,
            key=key,
            payload=apply_mask(payload, key) if key else payload,
            shortest=length >= least,
        )
        return seen, end
