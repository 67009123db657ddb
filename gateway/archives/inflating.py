"""A file packed by gzip (RFC 1952), inflated within bounds of what is packed, too.

Not by ``gzip``: it reads what stands between two members a byte at a time, and a file can be made
of nothing else. The zeros that a tape adds at the end are passed over.
"""

from __future__ import annotations

import zlib
from typing import Final, Protocol

#: Members of a file: as many as an archive may have files, if each were packed by itself.
MAX_PACKED_MEMBERS: Final = 10_000

#: Bytes of the file, unless its reader says otherwise.
MAX_PACKED: Final = 2 << 30

_PIECE: Final = 1 << 16
#: Of zlib: gzip's head and end are looked at.
_GZIP_WINDOW: Final = 31


class Readable(Protocol):
    """What is read forward, as a file is."""

    def read(self, size: int, /) -> bytes:
        """Return so many bytes, or fewer at the end."""


class PackedTooMuch(Exception):
    """The file has more bytes, or more members, than a file of its kind."""


class Inflating:
    """Reads what is packed in a file.

    Args:
        file: at its beginning; anything that is read as a file is.
        most: how many bytes it may have.
    """

    def __init__(self, file: Readable, most: int = MAX_PACKED) -> None:
        self._file = file
        self._most = most
        self._packed = b""
        self._taken = 0
        self._members = 0
        self._member: zlib._Decompress | None = None

    def read(self, size: int) -> bytes:
        """Return so many bytes, or fewer at the end.

        Raises:
            EOFError: the file ends inside a member.
            PackedTooMuch: the file is beyond the bounds.
            zlib.error: the file is damaged.
        """
        pieces = []
        while size:
            piece = self._piece(size)
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _piece(self, size: int) -> bytes:
        """Some bytes, ``size`` of them at most; none at the end."""
        while True:
            if self._member is None and not self._next_member():
                return b""
            assert self._member is not None, "there is one"
            piece = self._member.decompress(self._packed or self._more(), size)
            self._packed = self._member.unconsumed_tail
            if self._member.eof:
                self._packed = self._member.unused_data
                self._member = None
            elif not piece and not self._packed and not self._refill():
                raise EOFError("it ends inside of what is packed")
            if piece:
                return piece

    def _next_member(self) -> bool:
        """Begin the next member; False if there is none."""
        while not (rest := self._packed.lstrip(b"\0") if self._members else self._packed):
            if not self._refill():
                return False
        self._packed = rest
        self._members += 1
        if self._members > MAX_PACKED_MEMBERS:
            raise PackedTooMuch(f"more than {MAX_PACKED_MEMBERS} files packed one after another")
        self._member = zlib.decompressobj(_GZIP_WINDOW)
        return True

    def _refill(self) -> bool:
        self._packed = self._more()
        return bool(self._packed)

    def _more(self) -> bytes:
        more = self._file.read(_PIECE)
        self._taken += len(more)
        if self._taken > self._most:
            raise PackedTooMuch(f"more than {self._most} bytes while it is packed")
        return more
