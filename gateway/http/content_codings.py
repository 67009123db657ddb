"""Content codings of the bodies that the gateway reads, and of its answers.

Operations that read a request's body undo its coding here (:func:`decoded_body`). The coding of a
container's answer is undone by :func:`~partway.protocol.http.content_codings.decoded`. Operations
that relay bytes leave both alone.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from typing import Final

from partway.gateway.http.exchange import Exchange
from partway.protocol.errors import InputValidationError, RequestTooLarge, UnsupportedCoding, quoted
from partway.protocol.http.content_codings import (
    DEFLATE,
    GZIP,
    GZIP_WINDOW,
    ZLIB_WINDOW,
    CodingFault,
    DecodedTooLarge,
    UnknownCoding,
    check_known,
    coding_of,
    decoded,
    is_coded,
    name_of,
)

#: A shorter body is not packed, since it would hardly shrink.
_WORTHWHILE: Final = 1024

#: zlib's default packs numbers hardly better, and takes three times as long.
_LEVEL: Final = 1


async def decoded_body(
    exchange: Exchange, limit: int, run: Callable[..., Awaitable[bytes]] = asyncio.to_thread
) -> bytes:
    """Return the whole body of a request, decoded.

    Args:
        exchange: the client's.
        limit: most bytes of the body, both as it comes and decoded.
        run: calls a function off the event loop, with its arguments.

    Raises:
        UnsupportedCoding: the coding is unknown, or there are several.
        RequestTooLarge: the body has more bytes.
        InputValidationError: the body is not in its coding, or not whole.
        ApiError: as in :meth:`Exchange.body`.
    """
    coding = coding_of(exchange.headers)
    if not is_coded(coding):
        return await exchange.body(limit)
    _check_known(coding)  # before the gateway waits for the body
    body = await exchange.body(limit)
    found = await run(unpacked, body, coding, limit)
    exchange.holding.draw(len(found))
    return found


def check_uncoded(exchange: Exchange) -> None:
    """Refuse a coded body, for operations whose clients never send one.

    Raises:
        UnsupportedCoding: the body has a coding.
    """
    coding = coding_of(exchange.headers)
    if is_coded(coding):
        raise UnsupportedCoding(
            f"the body's Content-Encoding is {quoted(coding)}; it must be left out here",
            ("identity",),
        )


def unpacked(body: bytes, coding: str, limit: int) -> bytes:
    """Return a request's body, decoded.

    Args:
        body: as it came.
        coding: its ``Content-Encoding``; empty for none.
        limit: most bytes of the decoded body.

    Raises:
        UnsupportedCoding: the coding is unknown, or there are several.
        RequestTooLarge: the body has more bytes.
        InputValidationError: the body is not of this coding, or not whole.
    """
    try:
        return decoded(body, coding, limit)
    except UnknownCoding as fault:
        raise UnsupportedCoding(f"the body: {fault}") from None
    except DecodedTooLarge as fault:
        raise RequestTooLarge(f"the request's body: {fault}") from None
    except CodingFault as fault:
        raise InputValidationError(f"the body: {fault}", "InvalidContentEncoding") from None


def decoded_beginning(body: bytes, coding: str, limit: int) -> bytes:
    """Return the decoded beginning of a body, for a message to quote.

    Args:
        body: its first bytes; the rest may be missing.
        coding: its ``Content-Encoding``.
        limit: most bytes to return.

    Returns:
        The part that could be read. For an unknown coding, a text that names it.
    """
    if not is_coded(coding):
        return body
    name = name_of(coding)
    if name not in GZIP | DEFLATE:
        return f"(a body whose Content-Encoding is {quoted(coding)})".encode()
    inflating = zlib.decompressobj(GZIP_WINDOW if name in GZIP else ZLIB_WINDOW)
    try:
        return inflating.decompress(body, limit)
    except zlib.error:
        return body


def _check_known(coding: str) -> None:
    try:
        check_known(coding)
    except UnknownCoding as fault:
        raise UnsupportedCoding(f"the body: {fault}") from None


def asked_for(accept_encoding: str) -> str:
    """Return the coding that a client asks for in a response; empty for none.

    Libraries offer all codings that they know. So only a client that names a single known one wants
    it.
    """
    name = name_of(accept_encoding)
    return name if name in GZIP | DEFLATE else ""


def packed(body: bytes, coding: str) -> bytes | None:
    """Encode a body in a coding from :func:`asked_for`; None if it should stay as it is."""
    if not coding or len(body) < _WORTHWHILE:
        return None
    packing = zlib.compressobj(_LEVEL, wbits=GZIP_WINDOW if coding in GZIP else ZLIB_WINDOW)
    return packing.compress(body) + packing.flush()
