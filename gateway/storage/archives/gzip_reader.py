"""Gzip decompression (RFC 1952) within a bound on the compressed size."""

from __future__ import annotations

from typing import Final, Protocol

from partway.protocol.http.content_codings import PACKED_PIECE, PackedDecoder, PackedTooMuch

#: Compressed bytes of a file, unless the reader's caller gives another bound.
MAX_PACKED: Final = 2 << 30


class Readable(Protocol):
    """A source of bytes that is read forward, such as a file."""

    def read(self, size: int, /) -> bytes:
        """Return ``size`` bytes, or fewer at the end."""


class GzipReader:
    """Decompresses a file while it is read.

    Args:
        file: a file or another readable source, at its beginning.
        most: the bound on its compressed bytes.
    """

    def __init__(self, file: Readable, most: int = MAX_PACKED) -> None:
        self._file = file
        self._most = most
        self._taken = 0
        self._decoder = PackedDecoder(gzip=True)

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes, or fewer at the end.

        Raises:
            EOFError: the file ends inside a member.
            PackedTooMuch: the file exceeds a bound.
            zlib.error: the file is damaged.
        """
        pieces = []
        while size:
            piece = self._decoder.piece(size)
            if piece:
                pieces.append(piece)
                size -= len(piece)
            elif not self._refill():
                self._decoder.end()
                break
        return b"".join(pieces)

    def _refill(self) -> bool:
        """Read more of the file; return False at its end."""
        more = self._file.read(PACKED_PIECE)
        self._taken += len(more)
        if self._taken > self._most:
            raise PackedTooMuch(f"more than {self._most} bytes before it is unpacked")
        self._decoder.feed(more)
        return bool(more)
