"""Content codings of bodies: gzip and deflate (RFC 9110 §8.4.1), bounded both ways."""

from __future__ import annotations

import io
import zlib
from typing import Final

from partway.gateway.archives.inflating import Inflating, PackedTooMuch
from partway.protocol.errors import InputValidationError, RequestTooLarge, UnsupportedCoding

#: gzip's older name is to be taken for it (RFC 9110 §8.4.1.3).
_GZIP: Final = frozenset({"gzip", "x-gzip"})
_DEFLATE: Final = frozenset({"deflate"})

#: A shorter body is not packed: it would hardly be any shorter.
_WORTHWHILE: Final = 1024

#: What numbers are packed by next to nothing better, and in a third of the time of zlib's default.
_LEVEL: Final = 1

#: Of zlib: the head and the end of gzip's format are written.
_GZIP_WINDOW: Final = 31


def unpacked(body: bytes, coding: str, limit: int) -> bytes:
    """A body without its content coding.

    Args:
        body: as it came.
        coding: its ``Content-Encoding``; empty for none.
        limit: most bytes that it may have then.

    Raises:
        UnsupportedCoding: it is another one, or there are several.
        RequestTooLarge: the body has more bytes.
        InputValidationError: the body is not of this coding, or not whole.
    """
    name = coding.strip().lower()
    if name in ("", "identity"):
        return body
    try:
        if name in _GZIP:
            found = Inflating(io.BytesIO(body)).read(limit + 1)
        elif name in _DEFLATE:
            found = _inflated(body, limit + 1)
        else:
            raise UnsupportedCoding(
                f"the body's Content-Encoding must be one of {', '.join(UnsupportedCoding.known)}"
            )
    except (EOFError, PackedTooMuch, zlib.error):
        raise InputValidationError(
            f"the body is not what its Content-Encoding says: it must be one whole of {name}",
            "InvalidContentEncoding",
        ) from None
    if len(found) > limit:
        raise RequestTooLarge(
            f"the request's body is over {limit} bytes when unpacked; it must have at most that"
        )
    return found


def asked_for(accept_encoding: str) -> str:
    """The coding that a client asks for a response in; empty for none.

    Libraries offer all that they know, unasked: only who names one alone, and knows it, wants it.
    """
    name = accept_encoding.strip().lower()
    return name if name in _GZIP | _DEFLATE else ""


def packed(body: bytes, coding: str) -> bytes | None:
    """A body in a content coding of :func:`asked_for`'s; None where it stays as it is."""
    if not coding or len(body) < _WORTHWHILE:
        return None
    packing = zlib.compressobj(_LEVEL, wbits=_GZIP_WINDOW if coding in _GZIP else zlib.MAX_WBITS)
    return packing.compress(body) + packing.flush()


def _inflated(body: bytes, most: int) -> bytes:
    """What zlib's format has, which HTTP means by deflate (RFC 9110 §8.4.1.2)."""
    inflating = zlib.decompressobj()
    found = inflating.decompress(body, most)
    if len(found) < most and (not inflating.eof or inflating.unused_data):
        raise EOFError("it ends early, or late")
    return found
