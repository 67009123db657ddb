"""Headers of event stream messages: bytes ↔ names, types and values (clause 2.3).

::

    header = name length u8 | name | type u8 | value

Numbers are big-endian.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from partway.protocol.limits import (
    MAX_EVENT_HEADER_VALUE_BYTES,
    MAX_EVENT_HEADERS,
    MAX_EVENT_HEADERS_BYTES,
)


class HeaderType(enum.IntEnum):
    """The type of a header's value, as its type byte."""

    TRUE = 0
    FALSE = 1
    BYTE = 2
    SHORT = 3
    INT = 4
    LONG = 5
    BYTES = 6
    STRING = 7
    TIMESTAMP = 8
    UUID = 9


HeaderValue = bool | int | bytes | str | UUID

#: Size in bytes of each integer type; all are signed.
_INT_SIZES: Final = {
    HeaderType.BYTE: 1,
    HeaderType.SHORT: 2,
    HeaderType.INT: 4,
    HeaderType.LONG: 8,
    HeaderType.TIMESTAMP: 8,
}
_TYPES = tuple(HeaderType)
_UUID_BYTES: Final = 16


class Header(NamedTuple):
    """A header's type and value.

    Attributes:
        value: a bool, an int (a timestamp is milliseconds since 1970), bytes, a str or a UUID.
    """

    type: HeaderType
    value: HeaderValue


class EventStreamError(Exception):
    """Bytes that are not a valid message of this encoding.

    Attributes:
        reason: the fault and its place; it never quotes the bytes.
        oversize: whether a size is over its limit, with no other fault so far.
    """

    def __init__(self, reason: str, *, oversize: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.oversize = oversize


# --- Encoding ------------------------------------------------------------------------------------


def encode_headers(headers: Mapping[str, Header]) -> bytes:
    """Encode a header block: the part of a message between its prelude and its payload.

    Raises:
        ValueError: a name is empty or longer than 255 bytes, a value has the wrong type or is out
            of range, or there are more headers than our decoder accepts.
    """
    if len(headers) > MAX_EVENT_HEADERS:
        raise ValueError(
            f"{len(headers)} headers were given; there must be at most {MAX_EVENT_HEADERS}"
        )
    pieces: list[bytes] = []
    for name, (kind, value) in headers.items():
        encoded = name.encode()
        if not 1 <= len(encoded) <= 0xFF:
            raise ValueError(f"a header name must have 1 to 255 bytes, not {len(encoded)}")
        pieces += (bytes([len(encoded)]), encoded, bytes([kind]), _encode_value(kind, value))
    block = b"".join(pieces)
    if len(block) > MAX_EVENT_HEADERS_BYTES:
        raise ValueError(
            f"the headers have {len(block)} bytes; they must have at most {MAX_EVENT_HEADERS_BYTES}"
        )
    return block


def _encode_value(kind: HeaderType, value: HeaderValue) -> bytes:
    match kind, value:
        case (HeaderType.TRUE, True) | (HeaderType.FALSE, False):
            return b""
        case HeaderType.UUID, UUID():
            return value.bytes
        case HeaderType.STRING, str():
            return _sized(value.encode())
        case HeaderType.BYTES, bytes():
            return _sized(value)
        case _, int() if kind in _INT_SIZES and not isinstance(value, bool):
            try:
                return value.to_bytes(_INT_SIZES[kind], "big", signed=True)
            except OverflowError:
                raise ValueError(
                    f"a value is out of range; {kind.name} must fit into {_INT_SIZES[kind]} bytes"
                ) from None
        case _:
            raise ValueError(
                f"a {type(value).__name__} was given as {kind.name}, which cannot hold this value"
            )


def _sized(value: bytes) -> bytes:
    if len(value) > MAX_EVENT_HEADER_VALUE_BYTES:
        raise ValueError(
            f"a header's value has {len(value)} bytes; "
            f"it must have at most {MAX_EVENT_HEADER_VALUE_BYTES}"
        )
    return len(value).to_bytes(2, "big") + value


# --- Decoding ------------------------------------------------------------------------------------


def decode_headers(block: bytes) -> dict[str, Header]:
    """Decode the headers of a block, in order.

    Raises:
        EventStreamError: a name is empty, not UTF-8 or repeated. A type is unknown. A value is too
            long or not UTF-8. The block ends inside a header, is too long or has too many headers.
    """
    if len(block) > MAX_EVENT_HEADERS_BYTES:
        raise EventStreamError(
            f"the headers have {len(block)} bytes; "
            f"they must have at most {MAX_EVENT_HEADERS_BYTES}",
            oversize=True,
        )
    headers: dict[str, Header] = {}
    at = 0
    while at < len(block):
        type_at = at + 1 + block[at]
        if type_at == at + 1:
            raise EventStreamError(f"a header name is empty, at byte {at} of the headers")
        if type_at >= len(block):
            raise _ends_early(at)
        name = _text(block, at + 1, type_at)
        if name in headers:
            raise EventStreamError(f"a header appears twice, at byte {at} of the headers")
        if len(headers) == MAX_EVENT_HEADERS:
            raise EventStreamError(
                f"more than {MAX_EVENT_HEADERS} headers came in a message", oversize=True
            )
        headers[name], at = _decode_value(block, type_at)
    return headers


def _decode_value(block: bytes, type_at: int) -> tuple[Header, int]:
    """Decode the value whose type byte is at ``type_at``; return it with its end."""
    at = type_at + 1
    code = block[type_at]
    if code >= len(_TYPES):
        raise EventStreamError(f"unknown header type {code}, at byte {type_at} of the headers")
    kind = _TYPES[code]
    if kind is HeaderType.STRING or kind is HeaderType.BYTES:
        at += 2
        # A cut length reads as some number. One check below covers both the two bytes of the length
        # and the bytes that it counts.
        size = int.from_bytes(block[at - 2 : at], "big")
        if size > MAX_EVENT_HEADER_VALUE_BYTES:
            raise EventStreamError(
                f"a header's value has {size} bytes, at byte {type_at} of the headers; "
                f"it must have at most {MAX_EVENT_HEADER_VALUE_BYTES}"
            )
    elif kind in _INT_SIZES:
        size = _INT_SIZES[kind]
    else:
        size = _UUID_BYTES if kind is HeaderType.UUID else 0
    end = at + size
    if end > len(block):
        raise _ends_early(type_at)
    value: HeaderValue
    if kind is HeaderType.STRING:
        value = _text(block, at, end)
    elif kind is HeaderType.BYTES:
        value = block[at:end]
    elif kind is HeaderType.UUID:
        value = UUID(bytes=block[at:end])
    elif size:
        value = int.from_bytes(block[at:end], "big", signed=True)
    else:
        value = kind is HeaderType.TRUE
    return Header(kind, value), end


def _text(block: bytes, at: int, end: int) -> str:
    try:
        return block[at:end].decode()
    except UnicodeDecodeError:
        raise EventStreamError(
            f"a name or a string is not UTF-8, at byte {at} of the headers"
        ) from None


def _ends_early(at: int) -> EventStreamError:
    return EventStreamError(f"the headers end inside the field at byte {at} of the headers")
