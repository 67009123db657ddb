"""Records of a file: cut as the bytes come, and joined into request bodies.

Records keep the file's own bytes: a line keeps its LF or CRLF, and frames stay as they are. Only a
request with a single record has the frame of binary records removed, as in batch transform
(CreateTransformJob, ``SplitType``).
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Final, Literal, NamedTuple, TypeAlias

from partway.protocol.formats.faults import Malformed, OverLimit
from partway.protocol.formats.recordio import FrameHeads, payload_of

#: How a file is cut into records, in the API's words.
SplitType: TypeAlias = Literal["None", "Line", "RecordIO", "TFRecord"]

#: The separator after each answer, in the API's words.
AssembleWith: TypeAlias = Literal["None", "Line"]

#: The number of records in a request, in the API's words.
BatchStrategy: TypeAlias = Literal["MultiRecord", "SingleRecord"]

_NEWLINE: Final = b"\n"

#: TFRecord: the data's length and its checksum; after the data, the data's checksum.
_TF_HEAD: Final = struct.Struct("<QI")
_TF_TAIL: Final = struct.Struct("<I")
_TF_MASK: Final = 0xA282EAD8


class RecordBatch(NamedTuple):
    """Records that follow each other, as one body.

    Attributes:
        first: index of the first record in the file, from 0.
    """

    data: bytes
    first: int
    records: int

    def place(self, split: SplitType) -> str:
        if split == "None":
            return "the whole file"
        last = self.first + self.records - 1
        several = self.records > 1
        records = f"records {self.first} to {last}" if several else f"record {self.first}"
        if split != "Line":
            return records
        lines = f"lines {self.first + 1} to {last + 1}" if several else f"line {self.first + 1}"
        return f"{records} ({lines})"


class RecordSplitter(ABC):
    """Cuts the bytes of one file, as they come, into bodies of whole records, in order.

    It holds at most one body and the bytes that were fed last.

    Args:
        most: bytes of a body, and so of a record.
        strategy: whether a body has as many records as fit, or one.
    """

    def __init__(self, most: int, strategy: BatchStrategy) -> None:
        self._most = most
        self._single = strategy == "SingleRecord"
        self._held = bytearray()
        self._records = 0  # given out so far

    @abstractmethod
    def feed(self, data: bytes) -> Iterator[RecordBatch]:
        """Take the next bytes; yield the bodies that they complete.

        Raises:
            Malformed: the bytes are not valid records.
            OverLimit: a record is longer than a body may be.
        """

    def ready(self) -> Iterator[RecordBatch]:
        """Yield the whole records that are held, before a body is full; only frames can do so."""
        yield from ()

    @abstractmethod
    def finish(self) -> Iterator[RecordBatch]:
        """Note that all bytes have come; yield the remaining records.

        Raises:
            Malformed: the last record is incomplete.
            OverLimit: the last record is longer than a body may be.
        """

    def _cut(self, begin: int, end: int) -> bytes:
        """Return a slice of the held bytes, with one copy."""
        with memoryview(self._held) as held:
            return bytes(held[begin:end])

    def _batch(self, data: bytes, count: int) -> RecordBatch:
        first = self._records
        self._records += count
        return RecordBatch(data, first, count)

    def _over(self, what: str) -> OverLimit:
        return OverLimit(f"{what} has more than the {self._most} bytes that a request may have")


def splitter(split: SplitType, most: int, strategy: BatchStrategy) -> RecordSplitter:
    return _SPLITTERS[split](most, strategy)


def assembled(answer: bytes, how: AssembleWith) -> bytes:
    """Return one answer with its separator: for ``Line`` it ends with exactly one newline."""
    if how == "Line" and not answer.endswith(_NEWLINE):
        return answer + _NEWLINE
    return answer


# --- The ways to cut ------------------------------------------------------------------------------


class _Whole(RecordSplitter):
    """The whole file is one record; an empty file has none."""

    def feed(self, data: bytes) -> Iterator[RecordBatch]:
        self._held += data
        if len(self._held) > self._most:
            raise self._over("the file is not split (SplitType is None), and")
        yield from ()

    def finish(self) -> Iterator[RecordBatch]:
        if self._held:
            yield self._batch(bytes(self._held), 1)
            self._held.clear()


class _Lines(RecordSplitter):
    """Each line is a record, an empty one too; the last may lack its newline."""

    def feed(self, data: bytes) -> Iterator[RecordBatch]:
        held = self._held
        held += data
        if self._single:
            cut = held.rfind(_NEWLINE, len(held) - len(data)) + 1
            if cut:
                yield from self._each(self._cut(0, cut))
                del held[:cut]
            if len(held) > self._most:
                raise self._over(self._next())
            return
        while len(held) >= self._most:
            cut = held.rfind(_NEWLINE, 0, self._most) + 1
            if cut:
                yield self._lines(self._cut(0, cut))
                del held[:cut]
            elif len(held) > self._most:
                raise self._over(self._next())
            else:
                break

    def finish(self) -> Iterator[RecordBatch]:
        if self._held:
            yield self._lines(bytes(self._held))
            self._held.clear()

    def _each(self, lines: bytes) -> Iterator[RecordBatch]:
        first, most = self._records, self._most
        for number, line in enumerate(BytesIO(lines), first):  # splits at LF alone
            if len(line) > most:
                raise self._over(self._next())
            self._records = number + 1
            yield RecordBatch(line, number, 1)

    def _lines(self, data: bytes) -> RecordBatch:
        return self._batch(data, data.count(_NEWLINE) + (not data.endswith(_NEWLINE)))

    def _next(self) -> str:
        return RecordBatch(b"", self._records, 1).place("Line")


class _Framed(RecordSplitter):
    """Records in frames that state their lengths."""

    def __init__(self, most: int, strategy: BatchStrategy) -> None:
        super().__init__(most, strategy)
        self._looked_at = 0  # held bytes of whole records that will make up the next body
        self._count = 0  # number of those records
        self._passed = 0  # bytes of the file before the held bytes

    @abstractmethod
    def _end(self, begin: int) -> int | None:
        """Return the end of the record at ``begin`` in the held bytes; None if it is incomplete.

        Raises:
            Malformed: no record begins at ``begin``.
            OverLimit: the record is longer than a body may be.
        """

    @abstractmethod
    def _bare(self, begin: int, end: int) -> bytes:
        """Return the record between two places of the held bytes, without its frame."""

    def feed(self, data: bytes) -> Iterator[RecordBatch]:
        held = self._held
        held += data
        begin = 0
        while (end := self._end(self._looked_at)) is not None:
            if self._single:
                yield self._batch(self._bare(begin, end), 1)
                begin = end
            elif end - begin > self._most:
                yield self._batch(self._cut(begin, self._looked_at), self._count)
                begin, self._count = self._looked_at, 1
            else:
                self._count += 1
            self._looked_at = end
        self._looked_at -= begin
        self._passed += begin
        del held[:begin]

    def finish(self) -> Iterator[RecordBatch]:
        if self._looked_at != len(self._held):
            at = self._passed + self._looked_at
            raise Malformed(
                f"the frame at byte {at} is cut; the file must end with a whole frame",
                record=self._number,
            )
        yield from self.ready()

    def ready(self) -> Iterator[RecordBatch]:
        if self._count:
            yield self._batch(self._cut(0, self._looked_at), self._count)
            del self._held[: self._looked_at]
            self._passed += self._looked_at
            self._looked_at = self._count = 0

    @property
    def _number(self) -> int:
        return self._records + self._count

    def _check_length(self, framed: int, bare: int) -> None:
        if (bare if self._single else framed) > self._most:
            raise self._over(f"record {self._number}")


class _RecordIO(_Framed):
    """Frames of RecordIO; a record may span several frames."""

    def __init__(self, most: int, strategy: BatchStrategy) -> None:
        super().__init__(most, strategy)
        self._ahead = 0  # bytes of the current record in whole frames
        self._data = 0  # data bytes in those frames
        self._heads = FrameHeads()

    def _end(self, begin: int) -> int | None:
        place = begin + self._ahead
        while head := self._heads.at(self._held, place, self._passed, self._number):
            self._check_length(place + head.size - begin, self._data + head.length)
            if place + head.size > len(self._held):
                return None
            self._heads.passed(head)
            place += head.size
            if head.ends:
                self._ahead = self._data = 0
                return place
            self._ahead = place - begin
            self._data += head.adds
        return None

    def _bare(self, begin: int, end: int) -> bytes:
        with memoryview(self._held) as held:
            return payload_of(held[begin:end])


class _TFRecord(_Framed):
    """Frames of TFRecord, with verified checksums (tensorflow/core/lib/io/record_writer)."""

    def __init__(self, most: int, strategy: BatchStrategy) -> None:
        super().__init__(most, strategy)
        from google_crc32c import value  # imported here: only TFRecord needs it

        self._crc32c: Callable[[bytes], int] = value

    def _end(self, begin: int) -> int | None:
        held, data = self._held, begin + _TF_HEAD.size
        if len(held) < data:
            return None
        length: int
        length, checksum = _TF_HEAD.unpack_from(held, begin)
        self._check(self._cut(begin, begin + 8), checksum, "length", begin)
        size = _TF_HEAD.size + length + _TF_TAIL.size
        self._check_length(size, length)
        end = begin + size
        if len(held) < end:
            return None
        (checksum,) = _TF_TAIL.unpack_from(held, end - _TF_TAIL.size)
        self._check(self._cut(data, data + length), checksum, "data", begin)
        return end

    def _bare(self, begin: int, end: int) -> bytes:
        return self._cut(begin + _TF_HEAD.size, end - _TF_TAIL.size)

    def _check(self, data: bytes, checksum: int, what: str, begin: int) -> None:
        crc = self._crc32c(data)
        if ((crc >> 15 | crc << 17) + _TF_MASK) & 0xFFFFFFFF != checksum:
            raise Malformed(
                f"the checksum of the {what} of the frame at byte {self._passed + begin} is wrong: "
                "the file is damaged, or is not a TFRecord file",
                record=self._number,
            )


_SPLITTERS: Final[dict[SplitType, Callable[[int, BatchStrategy], RecordSplitter]]] = {
    "None": _Whole,
    "Line": _Lines,
    "RecordIO": _RecordIO,
    "TFRecord": _TFRecord,
}
