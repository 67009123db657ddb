"""Reads a file that gzip has packed (RFC 1952), within a bound on its packed bytes too."""

from __future__ import annotations

from typing import Final, Protocol

from partway.protocol.http.content_codings import PACKED_PIECE, PackedDecoder, PackedTooMuch

#: Bytes of the file, unless its reader says otherwise.
MAX_PACKED: Final = 2 << 30


class Readable(Protocol):
    """What is read forward, as a file is."""

    def read(self, size: int, /) -> bytes:
        """Return so many bytes, or fewer at the end."""


class GzipReader:
    """Reads what is packed in a file.

    Args:
        file: at its beginning; anything that is read as a file is.
        most: how many bytes it may have.
    """

    def __init__(self, file: Readable, most: int = MAX_PACKED) -> None:
        self._file = file
        self._most = most
        self._taken = 0
        self._decoder = PackedDecoder(gzip=True)

    def read(self, size: int) -> bytes:
        """Return so many bytes, or fewer at the end.

        Raises:
            EOFError: the file ends inside a member.
            PackedTooMuch: the file is beyond the bounds.
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
        """Read more of the file; False at its end."""
        more = self._file.read(PACKED_PIECE)
        self._taken += len(more)
        if self._taken > self._most:
            raise PackedTooMuch(f"more than {self._most} bytes while it is packed")
        self._decoder.feed(more)
        return bool(more)
