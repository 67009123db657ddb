"""Length-prefixed messages: a flag, four bytes of length, and the message."""

from __future__ import annotations

import struct
import zlib
from typing import Final

from partway.protocol.errors import InputValidationError, RequestTooLarge

#: A compression flag and the length of the message.
_PREFIX: Final = struct.Struct("!BI")
PREFIX_BYTES: Final = _PREFIX.size

#: Compressions of a message (``grpc-encoding``), with zlib's window argument: gzip (RFC 1952), and
#: deflate as HTTP defines it (RFC 1950).
_WINDOWS: Final = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
ENCODINGS: Final = ("identity", *_WINDOWS)


def framed(message: bytes) -> bytes:
    """Prefix an uncompressed message."""
    return _PREFIX.pack(0, len(message)) + message


def only_message(body: bytes, encoding: str, most_bytes: int) -> bytes:
    """Return the message of a body that must have exactly one.

    ``encoding`` is the compression of a compressed message, as in ``grpc-encoding``; ``most_bytes``
    counts the decompressed message.

    Raises:
        InputValidationError: the body has no message, more than one, or a malformed one.
        RequestTooLarge: the message is over ``most_bytes``.
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
    """Return the first message of a body.

    ``body`` is the beginning of the body, as far as it has come; the rest is as for
    :func:`only_message`.

    Returns:
        The message, and the place of the next one; None if the message is incomplete.

    Raises:
        InputValidationError: the message is malformed.
        RequestTooLarge: the message is over ``most_bytes``, or its prefix says so.
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
    """Raise InputValidationError for an unsupported compression; clients see UNIMPLEMENTED."""
    if encoding and encoding not in ENCODINGS:
        known = ", ".join(ENCODINGS)
        raise InputValidationError(
            f"grpc-encoding: {encoding[:64]!r} was given; it must be one of {known}",
            "UnsupportedEncoding",
        )


def _inflated(message: bytes, encoding: str, most_bytes: int) -> bytes:
    window = _WINDOWS.get(encoding)
    if window is None:
        raise _malformed(
            "a message is marked as compressed; grpc-encoding must name its compression"
        )
    inflating = zlib.decompressobj(window)
    try:
        whole = inflating.decompress(message, most_bytes + 1)
    except zlib.error:
        raise _malformed(
            f"the header grpc-encoding says {encoding}, but a message cannot be decompressed as "
            f"{encoding}; it must be compressed as the header says"
        ) from None
    if len(whole) > most_bytes:
        raise _too_large(most_bytes)
    if not inflating.eof or inflating.unused_data:
        raise _malformed(f"a compressed message must be exactly one complete {encoding} stream")
    return whole


def _malformed(words: str) -> InputValidationError:
    return InputValidationError(words, "MalformedMessage")


def _cardinality(words: str) -> InputValidationError:
    return InputValidationError(words, "MessageCount")


def _too_large(most_bytes: int) -> RequestTooLarge:
    return RequestTooLarge(
        f"a message is over {most_bytes} bytes; it must have at most {most_bytes}"
    )
