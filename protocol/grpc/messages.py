"""Length-prefixed messages: a flag, four bytes of length, and the message."""

from __future__ import annotations

import struct
import zlib
from typing import Final

from partway.protocol.errors import InputValidationError, RequestTooLarge

#: Whether the message is compressed, and how many bytes follow.
_PREFIX: Final = struct.Struct("!BI")
PREFIX_BYTES: Final = _PREFIX.size

#: What a message may be compressed by (``grpc-encoding``), and what zlib calls it: gzip with its
#: head (RFC 1952), and what HTTP calls deflate (RFC 1950).
_WINDOWS: Final = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
ENCODINGS: Final = ("identity", *_WINDOWS)


def framed(message: bytes) -> bytes:
    """A message behind its prefix, as it is."""
    return _PREFIX.pack(0, len(message)) + message


def only_message(body: bytes, encoding: str, most_bytes: int) -> bytes:
    """The message of a body that must have exactly one.

    Args:
        body: the whole body.
        encoding: what a compressed message is compressed by, as ``grpc-encoding`` has it.
        most_bytes: of the message, once it is not compressed any more.

    Raises:
        InputValidationError: it has none, or more than one, or one that cannot be read.
        RequestTooLarge: the message has more bytes.
    """
    found = first_message(body, encoding, most_bytes)
    if found is None:
        if body:
            raise _malformed(
                f"the body ends after {len(body)} bytes, in the middle of its message; a message "
                "must have as many bytes as its prefix says"
            )
        raise _cardinality("the call has no message; it must have exactly one")
    message, end = found
    if end < len(body):
        raise _cardinality("the call has more than one message; it must have exactly one")
    return message


def first_message(
    body: bytes | bytearray, encoding: str, most_bytes: int
) -> tuple[bytes, int] | None:
    """The first message of a body.

    Args:
        body: as much of it as has come.
        encoding: what a compressed message is compressed by, as ``grpc-encoding`` has it.
        most_bytes: of the message, once it is not compressed any more.

    Returns:
        The message, and where the next one begins; None if it is not whole yet.

    Raises:
        InputValidationError: it cannot be read.
        RequestTooLarge: it has more bytes, or its prefix says so.
    """
    if len(body) < PREFIX_BYTES:
        return None
    flag, size = _PREFIX.unpack_from(body)
    if flag > 1:
        raise _malformed(f"a message's first byte is {flag}; it must be 0, or 1 if compressed")
    if size > most_bytes:
        raise _too_large(most_bytes)
    end = PREFIX_BYTES + size
    if len(body) < end:
        return None
    message = bytes(body[PREFIX_BYTES:end])
    return (_inflated(message, encoding, most_bytes) if flag else message), end


def check_encoding(encoding: str) -> None:
    """Refuse a compression that is not known here.

    Raises:
        InputValidationError: it is one; clients take that for UNIMPLEMENTED.
    """
    if encoding and encoding not in ENCODINGS:
        known = ", ".join(ENCODINGS)
        raise InputValidationError(
            f"grpc-encoding: {encoding[:64]!r} was given; it must be one of {known}",
            "UnsupportedEncoding",
        )


def _inflated(message: bytes, encoding: str, most_bytes: int) -> bytes:
    window = _WINDOWS.get(encoding)
    if window is None:
        raise _malformed("a message is said to be compressed; grpc-encoding must say by what")
    inflating = zlib.decompressobj(window)
    try:
        whole = inflating.decompress(message, most_bytes + 1)
    except zlib.error:
        raise _malformed(f"a message is not {encoding}, as grpc-encoding says") from None
    if len(whole) > most_bytes:
        raise _too_large(most_bytes)
    if not inflating.eof or inflating.unused_data:
        raise _malformed(f"a compressed message must be exactly one piece of {encoding}")
    return whole


def _malformed(words: str) -> InputValidationError:
    return InputValidationError(words, "MalformedMessage")


def _cardinality(words: str) -> InputValidationError:
    return InputValidationError(words, "MessageCount")


def _too_large(most_bytes: int) -> RequestTooLarge:
    return RequestTooLarge(f"a message is over {most_bytes} bytes; it must have at most that")
