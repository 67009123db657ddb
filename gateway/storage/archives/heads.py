"""The headers of a tar file's members, read forward and within bounds.

The module does not use ``tarfile``. In Python versions up to 3.13 a pax header of 200 KB keeps
``tarfile`` busy for minutes. Headers that announce one another make it recurse without end. Only a
name, a size, a kind, a mode and a link's target are read here; all other fields are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from partway.gateway.storage.archives.gzip_reader import Readable

#: Kinds of members, by their headers' ``typeflag`` (POSIX.1, pax; GNU's manual of tar).
REGULAR: Final = frozenset(b"0\x007")
HARD_LINK, SYMBOLIC_LINK, CHARACTER_DEVICE, BLOCK_DEVICE, FOLDER, PIPE = b"123456"
#: These have no content, whatever size their headers name.
_WITHOUT_CONTENT: Final = frozenset(b"123456")

_BLOCK: Final = 512
_PIECE: Final = 1 << 20
_PAX, _PAX_FOR_ALL, _LONG_NAME, _LONG_LINK, _SPARSE = b"xgLKS"
_SIZE_IN_OCTAL: Final = re.compile(rb" *([0-7]*)[ \x00]*")
#: Decimal digits of a member's size; no size has more.
_SIZE_DIGITS: Final = 19


class ArchiveError(Exception):
    """A file cannot be read as an archive; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class HeadBounds:
    """The bounds of an archive's headers.

    Attributes:
        files: how many members the archive may have, including headers that only announce others.
        records: bytes of one long name, or of one member's pax records.
        records_in_all: bytes of all long names and pax records.
    """

    files: int
    records: int
    records_in_all: int


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an archive, as its header describes it.

    Attributes:
        name: the path in the archive.
        size: the number of content bytes on the tape.
        kind: the head's ``typeflag``.
        link: the target of a link; empty for other members.
    """

    name: bytes
    size: int
    kind: int
    link: bytes = b""
    mode: int = 0


@dataclass(slots=True)
class _Announced:
    """Values for the next member that do not fit into its own header."""

    name: bytes = b""
    link: bytes = b""
    size: int | None = None

    def of(self, member: Member) -> Member:
        size = member.size
        if self.size is not None and member.kind not in _WITHOUT_CONTENT:
            size = self.size
        name, link = self.name or member.name, self.link or member.link
        return Member(name, size, member.kind, link, member.mode)


def members(tape: Tape, bounds: HeadBounds) -> Iterator[Member]:
    """Yield the members of an archive in order, with the tape at each member's content.

    The caller moves the tape to the content's end (:func:`padded`) before it takes the next member.

    Raises:
        ArchiveError: the archive is damaged, or exceeds a bound.
        EOFError: the archive ends too early.
    """
    count = in_all = 0
    next_one = _Announced()
    while (member := _head(tape)) is not None:
        count += 1
        if count > bounds.files:
            raise ArchiveError(f"the archive has more than {bounds.files} files")
        if member.kind in (_PAX, _LONG_NAME, _LONG_LINK):
            in_all += member.size
            if in_all > bounds.records_in_all:
                raise ArchiveError(
                    f"the archive's headers have more than {bounds.records_in_all} bytes"
                )
            records = _records(tape, member.size, bounds.records)
            if member.kind == _LONG_NAME:
                next_one.name = records.rstrip(b"\0")
            elif member.kind == _LONG_LINK:
                next_one.link = records.rstrip(b"\0")
            else:
                _take_pax(records, next_one)
        elif member.kind == _PAX_FOR_ALL:
            tape.pass_to(tape.at + padded(member.size))
        elif member.kind == _SPARSE:
            raise _with_holes()
        else:
            yield next_one.of(member)
            next_one = _Announced()


def padded(size: int) -> int:
    """Return the bytes that a content takes on the tape: whole blocks."""
    return -(-size // _BLOCK) * _BLOCK


def _with_holes() -> ArchiveError:
    return ArchiveError("the archive has a file with holes: pack it without tar's --sparse")


def _head(tape: Tape) -> Member | None:
    """Return the next member; None at the archive's end."""
    block = tape.head()
    if not block.strip(b"\0"):
        return None
    # The checksum adds up all bytes, with its own field counted as spaces.
    if _number(block[148:156]) != sum(block) - sum(block[148:156]) + 8 * ord(" "):
        raise ArchiveError(
            "the file is not a tar archive, or is damaged (a header's checksum is wrong)"
        )
    name, prefix = _text(block[:100]), _text(block[345:500])
    if prefix and block[257:263] == b"ustar\0":
        name = prefix + b"/" + name
    kind = block[156]
    size = 0 if kind in _WITHOUT_CONTENT else _number(block[124:136])
    return Member(name, size, kind, _text(block[157:257]), _number(block[100:108]))


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _number(field: bytes) -> int:
    """Parse a number of a header: octal digits, or binary if its first bit is set (GNU's)."""
    if field[0] & 0x80:
        value = int.from_bytes(field, "big") - (0x80 << 8 * (len(field) - 1))
    else:
        digits = _SIZE_IN_OCTAL.fullmatch(field)
        if digits is None:
            raise ArchiveError(
                "the file is not a tar archive, or is damaged (no number in a header)"
            )
        value = int(digits[1] or b"0", 8)
    return value


def _records(tape: Tape, size: int, most: int) -> bytes:
    if size > most:
        raise ArchiveError(
            f"the archive has a file with a header of {size} bytes; it must be at most {most}"
        )
    end = tape.at + padded(size)
    found = tape.read(size)
    tape.pass_to(end)
    return found


def _take_pax(records: bytes, said: _Announced) -> None:
    """Parse pax records, each ``LENGTH KEY=VALUE`` and a line ending."""
    at = 0
    while at < len(records):
        digits, _, _ = records[at : at + 6].partition(b" ")
        length = int(digits) if digits.isdigit() else 0
        record = records[at + len(digits) + 1 : at + length]
        key, equals, value = record.partition(b"=")
        if not equals or not value.endswith(b"\n") or at + length > len(records):
            raise ArchiveError("the archive is damaged: a pax header has no records")
        value = value[:-1]
        if key == b"path":
            said.name = value
        elif key == b"linkpath":
            said.link = value
        elif key == b"size":
            if not value.isdigit() or len(value) > _SIZE_DIGITS:
                raise ArchiveError("the archive is damaged: a pax header has no size")
            said.size = int(value)
        elif key.startswith(b"GNU.sparse."):
            raise _with_holes()
        at += length


class Tape:
    """An archive's bytes, read forward and within a bound.

    Args:
        source: the archive's bytes.
        most: the bound on the bytes that are read or skipped.
        beyond: the error message for an archive that has more.

    Attributes:
        at: the number of bytes that have been read or skipped.
    """

    def __init__(self, source: Readable, most: int, beyond: str) -> None:
        self.at = 0
        self._source = source
        self._most = most
        self._beyond = beyond

    def head(self) -> bytes:
        """Return the next block; empty if the archive ends without the two final blocks."""
        self._bound(self.at + _BLOCK)
        block = self._source.read(_BLOCK)
        if len(block) not in (0, _BLOCK):
            raise EOFError("it ends in the middle of a header")
        self.at += len(block)
        return block

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes.

        Raises:
            ArchiveError: the archive exceeds the bound.
            EOFError: the archive ends too early.
        """
        self._bound(self.at + size)
        data = self._source.read(size)
        if len(data) != size:
            raise EOFError("it ends too early")
        self.at += size
        return data

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield ``size`` bytes in pieces, of which only one is in memory at a time.

        Raises:
            ArchiveError: the archive exceeds the bound.
            EOFError: the archive ends too early.
        """
        self._bound(self.at + size)
        end = self.at + size
        while self.at < end:
            yield self.read(min(_PIECE, end - self.at))

    def pass_to(self, end: int) -> None:
        """Move forward by reading the bytes in between.

        Raises:
            ArchiveError: the archive exceeds the bound.
            EOFError: the archive ends too early.
        """
        for _ in self.pieces(end - self.at):
            pass

    def _bound(self, end: int) -> None:
        if end > self._most:
            raise ArchiveError(self._beyond)


class SeekableTape(Tape):
    """A tape of an uncompressed file, which skips by seeking.

    Args:
        file: the archive, at its beginning.
        size: the size of the file in bytes.
        most: the bound on the bytes that are read or skipped.
        beyond: the error message for an archive that has more.
    """

    def __init__(self, file: BinaryIO, size: int, most: int, beyond: str) -> None:
        super().__init__(file, most, beyond)
        self._file = file
        self._size = size

    def pass_to(self, end: int) -> None:
        self._bound(end)
        if end > self._size:
            raise EOFError("it ends too early")
        self._file.seek(end)
        self.at = end
