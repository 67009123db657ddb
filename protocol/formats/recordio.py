"""RecordIO framing of records, whatever they hold.

A frame is a u32 LE magic, a u32 LE, the payload, and zeros up to a multiple of 4. The second u32
has a flag in its upper 3 bits and the length in the others. Frames are written whole. A record in
several parts is read in both existing forms. The library dmlc-core cuts a payload at each magic at
a multiple of 4, and leaves the magic out. The reader of ml-io puts nothing between the parts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from partway.protocol.formats.faults import Malformed, OverLimit
from partway.protocol.limits import MAX_RECORD_BYTES, MEDIA_PIECE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAGIC: Final = b"\x0a\x23\xd7\xce"

_HEAD: Final = struct.Struct("<4sI")
_ALIGNMENT: Final = 4
_LENGTH_BITS: Final = 29
_MAX_LENGTH: Final = (1 << _LENGTH_BITS) - 1
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)

#: Payloads of equal length, one per row.
Run: TypeAlias = "NDArray[np.uint8]"


def head_of(length: int) -> bytes:
    """Return the head of a frame; raises ValueError if the payload is too long for one."""
    if length > _MAX_LENGTH:
        raise ValueError(f"a record of {length} bytes was given; it must be {_MAX_LENGTH} at most")
    return _HEAD.pack(MAGIC, length)


def framed(payload: bytes) -> bytes:
    return head_of(len(payload)) + payload + bytes(-len(payload) % 4)


class FrameHead(NamedTuple):
    """The head of a frame.

    Attributes:
        flag: says whether the frame is a whole record, or the first, a middle or the last part of
            one.
    """

    flag: int
    length: int

    @property
    def size(self) -> int:
        """Bytes of the frame: head, payload and padding."""
        return _HEAD.size + self.length + -self.length % 4

    @property
    def ends(self) -> bool:
        return self.flag in {_WHOLE, _LAST}

    @property
    def adds(self) -> int:
        """Most bytes that the frame adds to a record: payload, and a magic before the next part."""
        return self.length + (0 if self.ends else len(MAGIC))


class FrameHeads:
    """Reads the heads of consecutive frames, and checks their sequence."""

    def __init__(self) -> None:
        self._open = False  # whether the last part of a record is still to come

    def at(
        self, held: bytes | bytearray | memoryview, place: int, offset: int, record: int
    ) -> FrameHead | None:
        """Return the head at a place of the held bytes; None if it is incomplete.

        ``place`` is the head's place in ``held``; ``offset`` is the place of ``held`` in the body,
        for messages.

        Raises:
            Malformed: no frame begins there, or it is out of sequence.
        """
        if len(held) - place < _HEAD.size:
            return None
        magic, word = _HEAD.unpack_from(held, place)
        at = offset + place
        if magic != MAGIC:
            raise Malformed(
                f"no frame begins at byte {at}; a frame must begin there, with the bytes "
                "0a 23 d7 ce",
                record=record,
            )
        head = FrameHead(word >> _LENGTH_BITS, word & _MAX_LENGTH)
        if head.flag > _LAST or (head.flag in {_MIDDLE, _LAST}) != self._open:
            raise Malformed(
                f"the frame at byte {at} is out of order; the parts of a record must be a first "
                "part, any number of middle parts, and a last part",
                record=record,
            )
        return head

    def passed(self, head: FrameHead) -> None:
        self._open = not head.ends


def payload_of(record: memoryview) -> bytes:
    """Return the payload of one record, whose frames have been checked."""
    parts = []
    while record:
        _, word = _HEAD.unpack_from(record)
        head = FrameHead(word >> _LENGTH_BITS, word & _MAX_LENGTH)
        parts.append(bytes(record[_HEAD.size : _HEAD.size + head.length]))
        record = record[head.size :]
    return joined_parts(parts)


def joined_parts(parts: Sequence[bytes]) -> bytes:
    """Return the payload of a record that came in parts.

    All parts of dmlc-core but the last end at multiples of 4. Other parts are joined unchanged. If
    both forms are possible, the one whose payload is a protobuf record is taken. It is dmlc-core's
    form if both are one, or neither is.
    """
    if len(parts) == 1:
        return parts[0]
    plain = b"".join(parts)
    if any(len(part) % _ALIGNMENT for part in parts[:-1]):
        return plain
    with_magic = MAGIC.join(parts)
    return plain if _is_record(plain) and not _is_record(with_magic) else with_magic


def _is_record(payload: bytes) -> bool:
    """Whether a payload is a protobuf record that has features or labels."""
    from google.protobuf.message import DecodeError  # imported here: few records come in parts

    from partway.protocol.formats.record_schema import Record

    record = Record()
    try:
        record.ParseFromString(payload)
    except DecodeError:
        return False
    return bool(record.features or record.label)


class RecordIOReader:
    """Turns bytes, as they come, into payloads; consecutive ones of one length come together."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._heads = FrameHeads()
        self._parts: list[bytes] = []
        self._parts_length = 0
        self._offset = 0
        self._records = 0

    def feed(self, data: bytes) -> Iterator[Run]:
        """Take the next bytes; yield the payloads that they complete.

        Raises:
            Malformed: the bytes are not frames.
            OverLimit: a record is too long.
        """
        for start in range(0, len(data), MEDIA_PIECE):
            self._held += data[start : start + MEDIA_PIECE]
            yield from self._whole()

    def _whole(self) -> Iterator[Run]:
        held = self._held
        place = 0
        while head := self._heads.at(held, place, self._offset, self._records):
            self._check_length(head)
            if len(held) - place < head.size:
                break
            self._heads.passed(head)
            if head.flag == _WHOLE:
                run = _alike(held, place, head.size)
                self._records += len(run)
                place += len(run) * head.size
                yield run[:, _HEAD.size : _HEAD.size + head.length]
            else:
                payload = bytes(held[place + _HEAD.size : place + _HEAD.size + head.length])
                place += head.size
                yield from self._part(head, payload)
        self._offset += place
        del held[:place]

    def finish(self) -> None:
        """Note that all bytes have come; raises Malformed if the last record is incomplete."""
        if self._held or self._parts:
            raise Malformed(
                f"the frame at byte {self._offset} is cut; the body must end with a whole one",
                record=self._records,
            )

    def _check_length(self, head: FrameHead) -> None:
        if self._parts_length + head.length > MAX_RECORD_BYTES:
            raise OverLimit(
                f"record {self._records} is longer than {MAX_RECORD_BYTES} bytes: "
                "send a shorter one"
            )

    def _part(self, head: FrameHead, payload: bytes) -> Iterator[Run]:
        self._parts.append(payload)
        self._parts_length += len(payload) + len(MAGIC)
        if head.ends:
            whole = joined_parts(self._parts)
            self._parts = []
            self._parts_length = 0
            self._records += 1
            yield _row(whole)


def _row(payload: bytes) -> NDArray[np.uint8]:
    import numpy as np  # imported here: cutting records does not need it

    return np.frombuffer(payload, np.uint8)[None]


def _alike(held: bytearray, place: int, size: int) -> NDArray[np.uint8]:
    """Return the frames from a place on that have the same head, as rows; at least one.

    Each step looks at twice as many frames, so that frames of many lengths cost no more than
    others.
    """
    import numpy as np  # as above

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
