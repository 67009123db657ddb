"""Gzip (RFC 1952) decompression in bounded pieces."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from partway.gateway.batch.limits import READ_BYTES
from partway.protocol.formats.faults import Malformed
from partway.protocol.limits import KIB

#: A flag of zlib: parse gzip's header and trailer.
_GZIP_WINDOW: Final = 31

#: Bytes that zlib is given at a time. It copies the bytes after a member's end, and a file may
#: consist of members of 20 bytes.
_SLICE: Final = 8 * KIB


async def unpacked(packed: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Decompress a file of one or several members; zeros after the last are tape padding.

    Each piece is decompressed on a thread, and bounded: a small file may expand without limit.

    Raises:
        Malformed: the file is not gzip, is damaged, or is cut.
    """
    gunzip = _Gunzip()
    async for data in packed:
        gunzip.feed(data)
        while piece := await asyncio.to_thread(gunzip.piece):
            yield piece
    gunzip.finish()


class _Gunzip:
    def __init__(self) -> None:
        self._packed = b""
        self._at = 0
        self._member: zlib._Decompress | None = None
        self._members = 0

    def feed(self, data: bytes) -> None:
        self._packed, self._at = self._packed[self._at :] + data, 0

    def piece(self) -> bytes:
        """Return the next decompressed piece; empty when more input is needed."""
        found: list[bytes] = []
        room = READ_BYTES
        try:
            while room and (given := self._packed[self._at : self._at + _SLICE]):
                if self._member is None and not self._begun(given):
                    continue
                member = self._member
                assert member is not None, "one was begun"
                given = self._packed[self._at : self._at + _SLICE]
                piece = member.decompress(given, room)
                left = member.unused_data if member.eof else member.unconsumed_tail
                self._at += len(given) - len(left)
                if member.eof:
                    self._member = None
                found.append(piece)
                room -= len(piece)
        except zlib.error as error:
            where = "the rest of the file" if self._members > 1 else "the file"
            is_none = "header check" in str(error)
            what = f"{where} must be gzip" if is_none else "the gzip data is damaged"
            raise Malformed(f"{what} (CompressionType is Gzip)") from None
        return b"".join(found)

    def finish(self) -> None:
        if self._member is not None:
            raise Malformed("the file is cut: it ends in the middle of its gzip data")

    def _begun(self, given: bytes) -> bool:
        """Begin a member if the input has more than zeros, which may precede a member."""
        if self._members:
            zeros = len(given) - len(given.lstrip(b"\0"))
            self._at += zeros
            if zeros == len(given):
                return False
        self._member = zlib.decompressobj(_GZIP_WINDOW)
        self._members += 1
        return True
