"""The heart of the project: one PayloadPart is one WebSocket data frame, both ways.

Neither translator looks at a payload, joins two, or splits one (clauses 1.2-1, 1.2-5, 1.3-1), and
neither makes up a FIN (1.2-7).
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from partway.protocol.parts import CompletionState, DataType, PayloadPart


class Opcode(enum.IntEnum):
    """Frame opcodes (RFC 6455 §5.2)."""

    CONTINUATION = 0x0
    TEXT = 0x1
    BINARY = 0x2
    CLOSE = 0x8
    PING = 0x9
    PONG = 0xA


class Frame(NamedTuple):
    """One frame, unmasked (RFC 6455 §5.2)."""

    opcode: Opcode
    payload: bytes
    fin: bool = True


# What a named tuple's own constructor comes to, at half its cost.
_new = tuple.__new__
# Looking a member up on an enum class costs more than the rest of a translation.
_CONTINUATION = Opcode.CONTINUATION
_TEXT = Opcode.TEXT
_BINARY = Opcode.BINARY
_UTF8 = DataType.UTF8
_BYTES = DataType.BINARY
_PARTIAL = CompletionState.PARTIAL
_COMPLETE = CompletionState.COMPLETE


class PartsToFrames:
    """Parts in, frames out, for one direction of one stream (clauses 1.2-1 to 1.2-4)."""

    __slots__ = ("mid_message",)

    def __init__(self) -> None:
        #: Whether the last part was ``PARTIAL``: the next one continues its message.
        self.mid_message = False

    def frame(self, part: PayloadPart) -> Frame:
        """Translate one part.

        Inside a message the opcode is continuation whatever the part's ``data_type`` says: the
        message's type stands (clause 1.2-4).
        """
        payload, data_type, completion = part
        opcode = _TEXT if data_type is _UTF8 else _BINARY
        if self.mid_message:
            opcode = _CONTINUATION
        fin = completion is _COMPLETE
        self.mid_message = not fin
        return _new(Frame, (opcode, payload, fin))


class FramesToParts:
    """Data frames in, parts out, for one direction of one stream (clauses 1.3-1, 1.3-2).

    Expects the order that :class:`partway.protocol.frame_codec.FrameDecoder` has checked.
    """

    __slots__ = ("_data_type",)

    def __init__(self) -> None:
        self._data_type = _BYTES

    def part(self, frame: Frame) -> PayloadPart:
        """Translate one data frame; a continuation repeats its message's data type."""
        opcode, payload, fin = frame
        if opcode is not _CONTINUATION:
            self._data_type = _UTF8 if opcode is _TEXT else _BYTES
        completion = _COMPLETE if fin else _PARTIAL
        return _new(PayloadPart, (payload, self._data_type, completion))
