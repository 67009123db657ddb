"""Content codings of bodies: gzip and deflate (RFC 9110 §8.4.1), decoded piece by piece.

The standard library's ``gzip`` is not used: it reads the bytes between two members one at a time,
and a body could consist of such bytes alone. Zeros after the last member are skipped, as tapes add
them.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final

from multidict import istr

from partway.protocol.errors import quoted

CONTENT_ENCODING: Final = istr("Content-Encoding")

#: Supported codings, by their usual names.
KNOWN: Final = ("gzip", "deflate")

#: gzip's older name means the same (RFC 9110 §8.4.1.3).
GZIP: Final = frozenset({"gzip", "x-gzip"})
DEFLATE: Final = frozenset({"deflate"})
NONE: Final = frozenset({"", "identity"})

#: Members of a gzip file: as many as the files of an archive, in case each is packed by itself.
MAX_PACKED_MEMBERS: Final = 10_000

#: Most bytes to give :meth:`PackedDecoder.feed` at once. The bytes after each member are copied, so
#: a longer piece with thousands of empty members costs the square of its length.
PACKED_PIECE: Final = 16 * 1024

#: zlib's window arguments: they make it check gzip's head and end, or zlib's own.
GZIP_WINDOW: Final = 31
ZLIB_WINDOW: Final = zlib.MAX_WBITS


class CodingFault(ValueError):
    """A body that is not in the coding that its ``Content-Encoding`` names; the text says why."""


class UnknownCoding(CodingFault):
    """A coding that is not supported, or several codings."""


class DecodedTooLarge(CodingFault):
    pass


class PackedTooMuch(Exception):
    """A packed file has more bytes, or more members, than a file of its kind."""


def coding_of(headers: Mapping[str, str]) -> str:
    """Return a body's coding from its headers; several ``Content-Encoding`` lines are one list."""
    if CONTENT_ENCODING not in headers:
        return ""
    wanted = CONTENT_ENCODING.lower()
    return ", ".join(value for name, value in headers.items() if name.lower() == wanted)


def name_of(coding: str) -> str:
    """Normalise a ``Content-Encoding`` for comparison."""
    return coding.strip().lower()


def is_coded(coding: str) -> bool:
    """Whether a ``Content-Encoding`` names any coding but ``identity``."""
    return name_of(coding) not in NONE


def check_known(coding: str) -> None:
    """Refuse an unsupported coding.

    Raises:
        UnknownCoding: the coding is unsupported, or there are several; the message names it.
    """
    if name_of(coding) not in NONE | GZIP | DEFLATE:
        raise UnknownCoding(
            f"its Content-Encoding is {quoted(coding)}; it must be {' or '.join(KNOWN)}"
        )


class PackedDecoder:
    """Decodes one coding: feed packed bytes, then take pieces until an empty one.

    Args:
        gzip: whether the bytes are gzip, with any number of members; otherwise they are zlib, which
            HTTP calls deflate (RFC 9110 §8.4.1.2).
    """

    __slots__ = ("_gzip", "_member", "_members", "_packed")

    def __init__(self, *, gzip: bool) -> None:
        self._gzip = gzip
        self._packed = b""
        self._members = 0
        self._member: zlib._Decompress | None = None

    def feed(self, packed: bytes) -> None:
        """Take packed bytes in, once :meth:`piece` has returned no bytes."""
        self._packed = packed

    def piece(self, most: int) -> bytes:
        """Return the next bytes, at most ``most``; empty if more packed bytes are needed.

        Raises:
            EOFError: bytes follow the end of the deflate data.
            PackedTooMuch: there are more than :data:`MAX_PACKED_MEMBERS` members.
            zlib.error: the bytes are damaged.
        """
        while self._member is not None or self._next_member():
            assert self._member is not None, "_next_member has begun a member"
            found = self._member.decompress(self._packed, most)
            self._packed = self._member.unconsumed_tail
            if self._member.eof:
                self._packed = self._member.unused_data
                self._member = None
            elif not found and not self._packed:
                break
            if found:
                return found
        return b""

    def end(self) -> None:
        """Raise EOFError if the packed bytes are incomplete."""
        if self._member is not None or not (self._members or self._gzip):
            raise EOFError("the data that is compressed by Content-Encoding ends too early")

    def _next_member(self) -> bool:
        """Begin the next member; False if no byte of it is here."""
        if self._members and self._gzip:
            self._packed = self._packed.lstrip(b"\0")
        if not self._packed:
            return False
        if self._members and not self._gzip:
            raise EOFError(
                "bytes follow the end of the data that is compressed by Content-Encoding"
            )
        self._members += 1
        if self._members > MAX_PACKED_MEMBERS:
            raise PackedTooMuch(f"more than {MAX_PACKED_MEMBERS} files packed one after another")
        self._member = zlib.decompressobj(GZIP_WINDOW if self._gzip else ZLIB_WINDOW)
        return True


class BodyDecoder:
    """Decodes a body within a size limit.

    Args:
        coding: the body's ``Content-Encoding``, which must name a coding.

    Raises:
        UnknownCoding: the coding is not supported, or there are several.
    """

    __slots__ = ("_decoder", "_left", "_limit", "_name")

    def __init__(self, coding: str, limit: int) -> None:
        check_known(coding)
        self._name = name_of(coding)
        self._limit = self._left = limit
        self._decoder = PackedDecoder(gzip=self._name in GZIP)

    def feed(self, packed: bytes) -> None:
        """Take packed bytes, :data:`PACKED_PIECE` at most, once :meth:`piece` returns no more."""
        self._decoder.feed(packed)

    def piece(self, most: int) -> bytes:
        """Return the next bytes, at most ``most``; empty if more packed bytes are needed.

        Raises:
            DecodedTooLarge: the body has more bytes than the limit.
            CodingFault: the body is not in its coding.
        """
        try:
            found = self._decoder.piece(min(most, self._left + 1))
        except (EOFError, PackedTooMuch, zlib.error):
            raise self._not_whole() from None
        if len(found) > self._left:
            raise DecodedTooLarge(
                f"it is over {self._limit} bytes when unpacked; it must have at most {self._limit}"
            )
        self._left -= len(found)
        return found

    def end(self) -> None:
        """Raise CodingFault if the body is incomplete."""
        try:
            self._decoder.end()
        except EOFError:
            raise self._not_whole() from None

    def _not_whole(self) -> CodingFault:
        return CodingFault(
            f"it does not match its Content-Encoding; it must be one complete {self._name} body"
        )


def decoded(body: bytes, coding: str, limit: int) -> bytes:
    """Return a body without its content coding; an empty ``coding`` means none.

    Raises:
        CodingFault: the body cannot be decoded, or has more than ``limit`` bytes.
    """
    if not is_coded(coding):
        return body
    decoder = BodyDecoder(coding, limit)
    pieces = []
    for at in range(0, len(body), PACKED_PIECE):
        decoder.feed(body[at : at + PACKED_PIECE])
        while found := decoder.piece(limit + 1):
            pieces.append(found)
    decoder.end()
    return b"".join(pieces)
