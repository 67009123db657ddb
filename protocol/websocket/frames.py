"""WebSocket frames and their parts: one PayloadPart is one data frame, in both directions.

The translators never read, join or split payloads (clauses 1.2-1, 1.2-5, 1.3-1), and they never
invent a FIN (1.2-7). :class:`FrameEncoder` encodes frames, and
:mod:`partway.protocol.websocket.frame_decoder` decodes them.
"""

from __future__ import annotations

import enum
import itertools
import os
import struct
from typing import NamedTuple

from partway.protocol.limits import JOIN_UP_TO
from partway.protocol.parts import CompletionState, DataType, PayloadPart
from partway.protocol.websocket.masking import apply_mask


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


# The named tuple's constructor, at half its cost.
_new = tuple.__new__
# Looking a member up on an enum class costs more than the rest of a translation.
_CONTINUATION = Opcode.CONTINUATION
_TEXT = Opcode.TEXT
_BINARY = Opcode.BINARY
_UTF8 = DataType.UTF8
_BYTES = DataType.BINARY
_PARTIAL = CompletionState.PARTIAL
_COMPLETE = CompletionState.COMPLETE

_MASKED = 0x80
_LENGTH_16 = 126
_LENGTH_64 = 127

_HEADER = struct.Struct("!BB").pack
_HEADER_16 = struct.Struct("!BBH").pack
_HEADER_64 = struct.Struct("!BBQ").pack

#: Fresh masking keys are cut from this many random bytes. RFC 6455 §5.3 asks for strong entropy for
#: each key, and a system call per key would cost more than the masking.
_KEY_POOL_BYTES = 4096


class PartsToFrames:
    """Parts in, frames out, for one direction of one stream (clauses 1.2-1 to 1.2-4)."""

    __slots__ = ("mid_message",)

    def __init__(self) -> None:
        #: Whether the last part was ``PARTIAL``: the next one continues its message.
        self.mid_message = False

    def frame(self, part: PayloadPart) -> Frame:
        """Translate one part.

        Inside a message the opcode is continuation, and the part's ``data_type`` is ignored: the
        message keeps its type (clause 1.2-4).
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

    Expects the order that :class:`~partway.protocol.websocket.frame_decoder.FrameDecoder` checks.
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


class FrameEncoder:
    """Frames in, bytes out.

    Args:
        masks: whether this side masks: a client does, with a fresh key for each frame (§5.3).
    """

    __slots__ = ("_keys", "_mask_bit", "_next_key")

    def __init__(self, *, masks: bool) -> None:
        self._mask_bit = _MASKED if masks else 0
        self._keys = b""
        self._next_key = 0

    def encode(self, frame: Frame) -> list[bytes]:
        """Encode a frame, in pieces to be written one after the other.

        Control payloads over 125 bytes are the caller's fault, and are not checked here:
        :class:`partway.protocol.connections.websocket.FrameConnection` makes them all.
        """
        opcode, payload, fin = frame
        first = opcode | 0x80 if fin else opcode
        length = len(payload)
        mask_bit = self._mask_bit
        if length < _LENGTH_16:
            header = _HEADER(first, mask_bit | length)
        elif length < 0x10000:
            header = _HEADER_16(first, mask_bit | _LENGTH_16, length)
        else:
            header = _HEADER_64(first, mask_bit | _LENGTH_64, length)
        if mask_bit:
            if self._next_key == len(self._keys):
                self._keys = os.urandom(_KEY_POOL_BYTES)
                self._next_key = 0
            key = self._keys[self._next_key : self._next_key + 4]
            self._next_key += 4
            header += key
            payload = apply_mask(payload, key)
        if length > JOIN_UP_TO:
            return [header, payload]
        return [header + payload]


def joined(pieces: list[bytes]) -> list[bytes]:
    """Join each run of small pieces into one piece.

    uvloop keeps each piece that the socket does not take, and thousands of two-byte pieces would
    take fifty times their size.
    """
    if max(map(len, pieces)) <= JOIN_UP_TO:
        return [b"".join(pieces)]
    runs = itertools.groupby(pieces, lambda piece: len(piece) > JOIN_UP_TO)
    return [piece for large, run in runs for piece in (run if large else [b"".join(run)])]
