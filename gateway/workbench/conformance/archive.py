"""The small documents of an image's archive: ``.tar`` or ``.tar.gz``, read in one pass.

Not by ``tarfile``: in the Pythons up to 3.13 a pax header of 200 KB keeps it for minutes, and heads
that announce one another are a recursion without end. Here a head is a name and a size; whatever
else a file of the archive is, or says of itself, is passed over.
"""

from __future__ import annotations

import os
import posixpath
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

from partway.gateway.files import open_regular
from partway.gateway.workbench.conformance.inflating import Inflating, PackedTooMuch

#: Bytes of one JSON document, and of all files that might be one. A configuration has some
#: kilobytes.
MAX_DOCUMENT: Final = 4 << 20
MAX_DOCUMENTS: Final = 16 << 20

#: Files in an archive: an image has at most 127 layers, and each of them three files.
MAX_MEMBERS: Final = 10_000

#: Bytes of an archive; the platform's registry takes layers of 52,000 MiB.
MAX_UNPACKED: Final = 64 << 30

#: The same of one that is packed: whatever is passed over there has to be inflated, a gigabyte in
#: two or three seconds.
MAX_INFLATED: Final = 2 << 30

#: Bytes of one long name, or of one file's pax records, where a path has 4,096 at most; and of all.
MAX_RECORDS: Final = 16 << 10
MAX_RECORDS_IN_ALL: Final = 4 << 20

_BLOCK: Final = 512
_PIECE: Final = 1 << 20
_GZIP: Final = b"\x1f\x8b"
#: Kinds of files, as their heads' ``typeflag`` says (POSIX.1, pax; GNU's manual of tar).
_REGULAR: Final = frozenset(b"0\x007")
_PAX, _PAX_FOR_ALL, _LONG_NAME, _LONG_LINK, _SPARSE = b"xgLKS"
_SIZE_IN_OCTAL: Final = re.compile(rb" *([0-7]*)[ \x00]*")


class ArchiveError(Exception):
    """A file cannot be read as an archive; says why, and what to do."""


@dataclass(slots=True)
class _Member:
    """A file of an archive, as far as its head tells."""

    name: bytes
    size: int
    kind: int


def read_documents(path: Path) -> dict[str, bytes]:
    """The files of an archive that might be JSON, by their names.

    Raises:
        ArchiveError: the file is no archive, is damaged, or beyond the bounds.
        OSError: the file cannot be read, or is a pipe or a device.
    """
    with open_regular(path) as file:
        packed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        source = Inflating(file) if packed else file
        try:
            return _documents(_Tape(source, None if packed else os.fstat(file.fileno()).st_size))
        except PackedTooMuch as error:
            raise ArchiveError(f"the archive has {error}: unpack it, and give the .tar") from error
        except (EOFError, zlib.error) as error:
            raise ArchiveError(f"the file is not a tar archive, or is damaged ({error})") from error


def _documents(tape: _Tape) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    size = 0
    for member in _members(tape):
        end = tape.at + _padded(member.size)
        if member.kind in _REGULAR and 0 < member.size <= MAX_DOCUMENT:
            begins = tape.read(1)
            if begins in b"{[":  # else it is a layer
                size += member.size
                if size > MAX_DOCUMENTS:
                    raise ArchiveError(
                        f"the archive's documents have more than {MAX_DOCUMENTS} bytes"
                    )
                name = posixpath.normpath(member.name.decode("utf-8", "replace"))
                found[name] = begins + tape.read(member.size - 1)
        tape.pass_to(end)
    return found


def _members(tape: _Tape) -> Iterator[_Member]:
    """The files of an archive, in their order; the tape is at the content of each."""
    count = in_all = 0
    name, size = b"", None  # of the next file, where its own head has no room for them
    while (member := _head(tape)) is not None:
        count += 1
        if count > MAX_MEMBERS:
            raise ArchiveError(f"the archive has more than {MAX_MEMBERS} files")
        if member.kind in (_PAX, _LONG_NAME):
            in_all += member.size
            if in_all > MAX_RECORDS_IN_ALL:
                raise ArchiveError(f"the archive's heads have more than {MAX_RECORDS_IN_ALL} bytes")
            records = _records(tape, member.size)
            if member.kind == _LONG_NAME:
                name = records.rstrip(b"\0")
            else:
                name, size = _of_pax(records, name, size)
        elif member.kind in (_PAX_FOR_ALL, _LONG_LINK):
            tape.pass_to(tape.at + _padded(member.size))
        elif member.kind == _SPARSE:
            raise ArchiveError("the archive has a file with holes: make it with docker save")
        else:
            yield _Member(name or member.name, member.size if size is None else size, member.kind)
            name, size = b"", None


def _head(tape: _Tape) -> _Member | None:
    """The next file's head; None at the archive's end."""
    block = tape.head()
    if not block.strip(b"\0"):
        return None
    # The sum of all bytes, its own field counted as spaces.
    if _number(block[148:156]) != sum(block) - sum(block[148:156]) + 8 * ord(" "):
        raise ArchiveError("the file is not a tar archive, or is damaged (a head's sum is wrong)")
    name, prefix = block[:100].partition(b"\0")[0], block[345:500].partition(b"\0")[0]
    if prefix and block[257:263] == b"ustar\0":
        name = prefix + b"/" + name
    kind = block[156]
    # What is no regular file has no content, whatever size a link's head says.
    size = 0 if kind in b"123456" else _number(block[124:136])
    return _Member(name, size, kind)


def _number(field: bytes) -> int:
    """A number in a head: octal digits, or with its first bit set a binary number (GNU's)."""
    if field[0] & 0x80:
        value = int.from_bytes(field, "big") - (0x80 << 8 * (len(field) - 1))
    else:
        digits = _SIZE_IN_OCTAL.fullmatch(field)
        if digits is None:
            raise ArchiveError("the file is not a tar archive, or is damaged (no number in a head)")
        value = int(digits[1] or b"0", 8)
    return value


def _records(tape: _Tape, size: int) -> bytes:
    if size > MAX_RECORDS:
        raise ArchiveError(
            f"the archive has a file with a head of {size} bytes; it must be at most {MAX_RECORDS}"
        )
    end = tape.at + _padded(size)
    found = tape.read(size)
    tape.pass_to(end)
    return found


def _of_pax(records: bytes, name: bytes, size: int | None) -> tuple[bytes, int | None]:
    """Name and size that pax records say, each ``LENGTH KEY=VALUE`` and a line's end."""
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
            name = value
        elif key == b"size":
            if not value.isdigit() or len(value) > len(str(MAX_UNPACKED)):
                raise ArchiveError("the archive is damaged: a pax header has no size")
            size = int(value)
        at += length
    return name, size


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


class _Tape:
    """An archive's bytes, read forward and within bounds.

    Args:
        source: the archive's bytes.
        size: how many there are; None where the archive is packed, and that is not known.

    Attributes:
        at: how many bytes have been read, or passed over.
    """

    def __init__(self, source: BinaryIO | Inflating, size: int | None) -> None:
        self.at = 0
        self._source = source
        self._size = size

    def head(self) -> bytes:
        """The next block; empty where the archive ends without the two that are to end it."""
        self._bound(self.at + _BLOCK)
        block = self._source.read(_BLOCK)
        if len(block) not in (0, _BLOCK):
            raise EOFError("it ends in the middle of a head")
        self.at += len(block)
        return block

    def read(self, size: int) -> bytes:
        """So many bytes.

        Raises:
            ArchiveError: the archive is too long.
            EOFError: the archive ends before.
        """
        self._bound(self.at + size)
        data = self._source.read(size)
        if len(data) != size:
            raise EOFError("it ends too early")
        self.at += size
        return data

    def pass_to(self, end: int) -> None:
        """Go forward; in a packed archive, by inflating what is between.

        Raises:
            ArchiveError: the archive is too long.
            EOFError: the archive ends before.
        """
        self._bound(end)
        if self._size is None:
            while self.at < end:
                self.read(min(_PIECE, end - self.at))
        elif end > self._size:
            raise EOFError("it ends too early")
        else:
            cast("BinaryIO", self._source).seek(end)
            self.at = end

    def _bound(self, end: int) -> None:
        if self._size is None and end > MAX_INFLATED:
            raise ArchiveError(
                f"the archive has more than {MAX_INFLATED >> 30} GiB once it is unpacked: unpack "
                "it, and give the .tar, of which only what is needed is read"
            )
        if end > MAX_UNPACKED:
            raise ArchiveError(f"the archive has more than {MAX_UNPACKED >> 30} GiB")
