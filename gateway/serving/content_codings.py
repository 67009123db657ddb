"""Content codings of bodies: gzip and deflate (RFC 9110 §8.4.1), bounded both ways.

Operations that read a request's body undo its coding here (:func:`decoded_body`), and the coding of
a container's answer that they read (:func:`decoded`). Operations that relay bytes leave both alone.
"""

from __future__ import annotations

import asyncio
import io
import zlib
from collections.abc import Awaitable, Callable
from typing import Final

from multidict import istr

from partway.gateway.archives.inflating import Inflating, PackedTooMuch
from partway.gateway.serving.exchange import Exchange
from partway.protocol.errors import InputValidationError, RequestTooLarge, UnsupportedCoding
from partway.protocol.http1.facts import Fact

CONTENT_ENCODING: Final = istr("Content-Encoding")
_CODING: Final = Fact(lambda headers: headers.get(CONTENT_ENCODING, ""))

#: Codings that :func:`decoded` undoes, by their usual names.
KNOWN: Final = ("gzip", "deflate")

#: Characters of a coding's name that a message repeats.
_SHOWN: Final = 64

#: gzip's older name is to be taken for it (RFC 9110 §8.4.1.3).
_GZIP: Final = frozenset({"gzip", "x-gzip"})
_DEFLATE: Final = frozenset({"deflate"})
_NONE: Final = frozenset({"", "identity"})

#: A shorter body is not packed: it would hardly be any shorter.
_WORTHWHILE: Final = 1024

#: What numbers are packed by next to nothing better, and in a third of the time of zlib's default.
_LEVEL: Final = 1

#: Of zlib: the head and the end of gzip's format are written.
_GZIP_WINDOW: Final = 31


class CodingFault(ValueError):
    """A body that is not in the coding that its ``Content-Encoding`` names; the text says why."""


class UnknownCoding(CodingFault):
    """A coding that is not known here, or several codings."""


class DecodedTooLarge(CodingFault):
    """A body that has too many bytes without its coding."""


async def decoded_body(
    exchange: Exchange, limit: int, run: Callable[..., Awaitable[bytes]] = asyncio.to_thread
) -> bytes:
    """The whole body of a request, without its content coding.

    Args:
        exchange: the client's.
        limit: most bytes of the body, both as it comes and without its coding.
        run: calls a function off the event loop, with its arguments.

    Raises:
        UnsupportedCoding: the coding is not known here, or there are several.
        RequestTooLarge: the body has more bytes.
        InputValidationError: the body is not in its coding, or not whole.
        ApiError: as of :meth:`Exchange.body`.
    """
    coding = _CODING.of(exchange)
    if not is_coded(coding):
        return await exchange.body(limit)
    _check_known(coding)  # before the gateway waits for the body
    body = await exchange.body(limit)
    found = await run(unpacked, body, coding, limit)
    exchange.holding.draw(len(found))
    return found


def is_coded(coding: str) -> bool:
    """Whether a ``Content-Encoding`` names any coding but ``identity``."""
    return coding.strip().lower() not in _NONE


def check_uncoded(exchange: Exchange) -> None:
    """Refuse a coded body, for operations whose clients never send one.

    Raises:
        UnsupportedCoding: the body has a coding.
    """
    coding = _CODING.of(exchange)
    if is_coded(coding):
        raise UnsupportedCoding(
            f"the body's Content-Encoding is {coding[:_SHOWN]!r}; it must be left out here",
            ("identity",),
        )


def unpacked(body: bytes, coding: str, limit: int) -> bytes:
    """A request's body without its content coding.

    Args:
        body: as it came.
        coding: its ``Content-Encoding``; empty for none.
        limit: most bytes that it may have then.

    Raises:
        UnsupportedCoding: it is another one, or there are several.
        RequestTooLarge: the body has more bytes.
        InputValidationError: the body is not of this coding, or not whole.
    """
    _check_known(coding)
    try:
        return decoded(body, coding, limit)
    except DecodedTooLarge as fault:
        raise RequestTooLarge(f"the request's body: {fault}") from None
    except CodingFault as fault:
        raise InputValidationError(f"the body: {fault}", "InvalidContentEncoding") from None


def decoded(body: bytes, coding: str, limit: int) -> bytes:
    """A body without its content coding.

    Args:
        body: as it came.
        coding: its ``Content-Encoding``; empty for none.
        limit: most bytes that it may have then.

    Raises:
        CodingFault: the body cannot be read, or has more bytes.
    """
    name = coding.strip().lower()
    if name in _NONE:
        return body
    try:
        if name in _GZIP:
            found = Inflating(io.BytesIO(body)).read(limit + 1)
        elif name in _DEFLATE:
            found = _inflated(body, limit + 1)
        else:
            raise UnknownCoding(_not_known(coding))
    except (EOFError, PackedTooMuch, zlib.error):
        raise CodingFault(
            f"it is not what its Content-Encoding says; it must be one whole of {name}"
        ) from None
    if len(found) > limit:
        raise DecodedTooLarge(f"it is over {limit} bytes when unpacked; it must have at most that")
    return found


def decoded_beginning(body: bytes, coding: str, limit: int) -> bytes:
    """The beginning of a body without its coding, for a message to quote.

    Args:
        body: its first bytes; the rest may be missing.
        coding: its ``Content-Encoding``.
        limit: most bytes to return.

    Returns:
        The part that could be read. A coding that is not known here is named instead.
    """
    name = coding.strip().lower()
    if name in _NONE:
        return body
    if name not in _GZIP | _DEFLATE:
        return f"(a body whose Content-Encoding is {coding[:_SHOWN]!r})".encode()
    inflating = zlib.decompressobj(_GZIP_WINDOW if name in _GZIP else zlib.MAX_WBITS)
    try:
        return inflating.decompress(body, limit)
    except zlib.error:
        return body


def _check_known(coding: str) -> None:
    if coding.strip().lower() not in _NONE | _GZIP | _DEFLATE:
        raise UnsupportedCoding(f"the body: {_not_known(coding)}")


def _not_known(coding: str) -> str:
    return f"its Content-Encoding is {coding[:_SHOWN]!r}; it must be {' or '.join(KNOWN)}"


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
