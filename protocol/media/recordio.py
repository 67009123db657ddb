"""RecordIO: how records are framed, whatever they hold.

A frame is u32 LE magic, u32 LE that has a flag in its upper 3 bits and the length in the others,
the payload, zeros up to a multiple of 4. A payload that holds the magic at a multiple of 4 may be
cut there, and the reader puts those bytes back. Frames are written whole and read both ways.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from partway.protocol.limits import MAX_RECORD_BYTES, MEDIA_PIECE
from partway.protocol.media.faults import Malformed, OverLimit

MAGIC: Final = b"\x0a\x23\xd7\xce"

_HEAD: Final = struct.Struct("<4sI")
_LENGTH_BITS: Final = 29
_MAX_LENGTH: Final = (1 << _LENGTH_BITS) - 1
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)

#: Payloads of equal length, one a row.
Run = NDArray[np.uint8]


def head_of(length: int) -> bytes:
    """What comes before a payload.

    Raises:
        ValueError: the payload is longer than a frame may be.
    """
    if length > _MAX_LENGTH:
        raise ValueError(f"a record of {length} bytes was given; it must be {_MAX_LENGTH} at most")
    return _HEAD.pack(MAGIC, length)


def framed(payload: bytes) -> bytes:
    """One frame."""
    return head_of(len(payload)) + payload + bytes(-len(payload) % 4)


class RecordIOReader:
    """Bytes as they come → payloads; those of one length that follow each other come together."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._parts: list[bytes] = []
        self._parts_length = 0
        self._offset = 0
        self._records = 0

    def feed(self, data: bytes) -> Iterator[Run]:
        """Take the next bytes; gives the payloads that are whole with them.

        Raises:
            Malformed: the bytes are no frames.
            OverLimit: a record is too long.
        """
        for start in range(0, len(data), MEDIA_PIECE):
            self._held += data[start : start + MEDIA_PIECE]
            yield from self._whole()

    def _whole(self) -> Iterator[Run]:
        held = self._held
        place = 0
        while len(held) - place >= _HEAD.size:
            flag, length = self._head(held, place)
            size = _HEAD.size + length + -length % 4
            if len(held) - place < size:
                break
            if flag == _WHOLE:
                run = _alike(held, place, size)
                self._records += len(run)
                place += len(run) * size
                yield run[:, _HEAD.size : _HEAD.size + length]
            else:
                payload = bytes(held[place + _HEAD.size : place + _HEAD.size + length])
                place += size
                yield from self._part(flag, payload)
        self._offset += place
        del held[:place]

    def finish(self) -> None:
        """Say that all bytes have come.

        Raises:
            Malformed: the last record is cut.
        """
        if self._held or self._parts:
            raise Malformed(
                f"the frame at byte {self._offset} is cut; the body must end with a whole one",
                record=self._records,
            )

    def _head(self, held: bytearray, place: int) -> tuple[int, int]:
        magic, word = _HEAD.unpack_from(held, place)
        at = self._offset + place
        if magic != MAGIC:
            raise Malformed(
                f"a frame must begin at byte {at}, with the bytes 0a 23 d7 ce", record=self._records
            )
        flag, length = word >> _LENGTH_BITS, word & _MAX_LENGTH
        if flag > _LAST or (flag in {_MIDDLE, _LAST}) != bool(self._parts):
            raise Malformed(
                f"the frame at byte {at} is out of place: parts of a record must be a first one, "
                "any number of middle ones, and a last one",
                record=self._records,
            )
        if self._parts_length + length > MAX_RECORD_BYTES:
            raise OverLimit(
                f"record {self._records} is longer than {MAX_RECORD_BYTES} bytes: "
                "send a shorter one"
            )
        return flag, length

    def _part(self, flag: int, payload: bytes) -> Iterator[Run]:
        self._parts.append(payload)
        self._parts_length += len(payload) + len(MAGIC)
        if flag == _LAST:
            whole = MAGIC.join(self._parts)
            self._parts = []
            self._parts_length = 0
            self._records += 1
            yield np.frombuffer(whole, np.uint8)[None]


def _alike(held: bytearray, place: int, size: int) -> NDArray[np.uint8]:
    """The frames from a place on that have the same head, as rows; at least one.

    Looks at twice as many in each step, so that frames of many lengths cost no more than others.
    """
    most = (len(held) - place) // size
    frames = np.frombuffer(held, np.uint8, most * size, place).reshape(most, size)
    count, step = 1, 1
    while count < most:
        some = (frames[count : count + step, : _HEAD.size] == frames[0, : _HEAD.size]).all(axis=1)
        if not some.all():
            count += int(some.argmin())
            break
        count += len(some)
        step *= 2
    return frames[:count].copy()
