"""``application/vnd.amazon.eventstream``: bytes ↔ messages of headers and a payload (clause 2.3).

::

    total u32 | headers u32 | crc32 of those 8 | headers | payload | crc32 of all before
    header = name length u8 | name | type u8 | value

Numbers are big-endian. What the messages mean: :mod:`partway.protocol.part_events`.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID
from zlib import crc32

from partway.protocol.limits import (
    EVENT_FRAMING_BYTES,
    MAX_EVENT_HEADER_VALUE_BYTES,
    MAX_EVENT_HEADERS,
    MAX_EVENT_HEADERS_BYTES,
)

CONTENT_TYPE: Final = "application/vnd.amazon.eventstream"

_LENGTHS = struct.Struct("!II").pack
_PRELUDE = struct.Struct("!III").unpack_from
_PRELUDE_BYTES: Final = 12
_CRC_BYTES: Final = 4
_U32_MAX: Final = 0xFFFFFFFF


class HeaderType(enum.IntEnum):
    """The type of a header's value, as its type byte says it."""

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

#: Of the types that are one signed integer: its size in bytes.
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
        type: the type byte.
        value: a bool, an int (a timestamp is milliseconds since 1970), bytes, a str or a UUID.
    """

    type: HeaderType
    value: HeaderValue


class Message(NamedTuple):
    """One message; its headers in the order they came."""

    headers: dict[str, Header]
    payload: bytes


class EventStreamError(Exception):
    """Bytes that are not a message of this encoding.

    Attributes:
        reason: what is wrong, and where; never the bytes.
        oversize: whether a size is over its limit, and all else was well so far.
    """

    def __init__(self, reason: str, *, oversize: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.oversize = oversize


# --- Encoding ------------------------------------------------------------------------------------


def encode(headers: Mapping[str, Header], payload: bytes = b"") -> bytes:
    """A message as bytes.

    Raises:
        ValueError: a header cannot be encoded (see :func:`encode_headers`), or the message would be
            too long.
    """
    return encode_raw(encode_headers(headers), payload)


def encode_raw(headers: bytes, payload: bytes) -> bytes:
    """A message as bytes, its header block already encoded.

    Raises:
        ValueError: the lengths do not fit into the prelude's 32 bits.
    """
    head = encode_head(headers, len(payload))
    return b"".join((head, payload, crc32(payload, crc32(head)).to_bytes(4, "big")))


def encode_head(headers: bytes, payload_size: int) -> bytes:
    """What stands before a message's payload: its prelude, and its header block as it is encoded.

    Raises:
        ValueError: the lengths do not fit into the prelude's 32 bits.
    """
    total = len(headers) + payload_size + EVENT_FRAMING_BYTES
    if total > _U32_MAX:
        raise ValueError(f"a message would have {total} bytes; it must have at most {_U32_MAX}")
    lengths = _LENGTHS(total, len(headers))
    return lengths + crc32(lengths).to_bytes(4, "big") + headers


def encode_headers(headers: Mapping[str, Header]) -> bytes:
    """A header block: what stands between a message's prelude and its payload.

    Raises:
        ValueError: a name is empty or longer than 255 bytes, a value is not of its type or out of
            its range, or there are more headers than a decoder here takes.
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


def decode(data: bytes) -> Message:
    """Read bytes that are exactly one whole message.

    Raises:
        EventStreamError: the bytes are not a message, end inside it, or go on behind it.
    """
    headers, payload = decode_raw(data)
    return Message(decode_headers(headers), payload)


def decode_raw(data: bytes) -> tuple[bytes, bytes]:
    """Cut exactly one whole message into its header block, still encoded, and its payload.

    Raises:
        EventStreamError: the bytes are not a message, end inside it, or go on behind it. Whether
            the message is too large is the caller's to say.
    """
    if len(data) < EVENT_FRAMING_BYTES:
        raise EventStreamError(
            f"{len(data)} bytes came; a message must have at least {EVENT_FRAMING_BYTES}"
        )
    total, headers_length = _read_prelude(data, 0)
    if total != len(data):
        what = "bytes follow the message" if total < len(data) else "the message is cut"
        raise EventStreamError(f"{what}: its prelude says {total} bytes, {len(data)} came")
    return _cut(data, 0, total, headers_length)


def _read_prelude(buffer: bytes | bytearray, at: int) -> tuple[int, int]:
    """The length of the message at ``at``, and of its headers. Its prelude must be whole."""
    total, headers_length, crc = _PRELUDE(buffer, at)
    # Lengths are believed only once their checksum has been.
    if crc32(buffer[at : at + 8]) != crc:
        raise EventStreamError("the prelude's checksum is wrong")
    if total < headers_length + EVENT_FRAMING_BYTES:
        raise EventStreamError(
            f"{headers_length} bytes of headers cannot be in a message of {total}"
        )
    return total, headers_length


def _cut(
    buffer: bytes | bytearray, at: int, total: int, headers_length: int
) -> tuple[bytes, bytes]:
    """The header block and the payload of the whole message at ``at``."""
    payload_at = at + _PRELUDE_BYTES + headers_length
    crc_at = at + total - _CRC_BYTES
    head = bytes(buffer[at:payload_at])
    if isinstance(buffer, bytes):
        payload = buffer[payload_at:crc_at]
    else:
        payload = bytes(memoryview(buffer)[payload_at:crc_at])
    if crc32(payload, crc32(head)) != int.from_bytes(buffer[crc_at : at + total], "big"):
        raise EventStreamError("the message's checksum is wrong")
    return head[_PRELUDE_BYTES:], payload


def decode_headers(block: bytes) -> dict[str, Header]:
    """The headers of a block, in their order.

    Raises:
        EventStreamError: a name is empty, not UTF-8 or there twice; a type is unknown; a value is
            too long or not UTF-8; the block does not end with a header, is too long or has too
            many headers.
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
            raise EventStreamError(f"a header is there twice, at byte {at} of the headers")
        if len(headers) == MAX_EVENT_HEADERS:
            raise EventStreamError(
                f"more than {MAX_EVENT_HEADERS} headers came in a message", oversize=True
            )
        headers[name], at = _decode_value(block, type_at)
    return headers


def _decode_value(block: bytes, type_at: int) -> tuple[Header, int]:
    """The value whose type byte is at ``type_at``, and where it ends."""
    at = type_at + 1
    code = block[type_at]
    if code >= len(_TYPES):
        raise EventStreamError(f"unknown header type {code}, at byte {type_at} of the headers")
    kind = _TYPES[code]
    if kind is HeaderType.STRING or kind is HeaderType.BYTES:
        at += 2
        # A length that is itself cut reads as something; that its two bytes are there, and all
        # it counts, is the one check below.
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
    return EventStreamError(f"the headers end inside one that begins at byte {at} of them")


class Decoder:
    """Bytes in, messages out, in linear time however the bytes are cut.

    Feed it with :meth:`feed`, then call :meth:`next_message` until it returns None. Whoever stops
    early keeps the rest in :attr:`buffered_bytes`.

    Args:
        max_payload: largest payload; a larger one is refused from its prelude, before its bytes.
        max_headers: largest header block; a larger one is refused in the same way.

    Rules, in the order a message meets them:
        1. The checksum of the two lengths is right.
        2. Headers and framing fit into the message; headers and payload are in their limits.
        3. The checksum of the message is right.
        4. The headers are well formed: :func:`decode_headers`.
        5. Nothing after an error means anything: the error is raised again.
    """

    __slots__ = (
        "_at",
        "_buffer",
        "_error",
        "_headers_length",
        "_max_headers",
        "_max_payload",
        "_total",
    )

    def __init__(self, max_payload: int, max_headers: int = MAX_EVENT_HEADERS_BYTES) -> None:
        self._max_payload = max_payload
        self._max_headers = max_headers
        # Messages are cut straight out of the bytes of one read; only an unfinished one is
        # gathered in a bytearray, so that a long one costs linear time.
        self._buffer: bytes | bytearray = b""
        self._at = 0
        # Of the message at ``_at``, from its prelude; 0 until that has been read.
        self._total = 0
        self._headers_length = 0
        # Its words and not the exception, whose traceback would keep payloads alive.
        self._error: tuple[str, bool] | None = None

    @property
    def buffered_bytes(self) -> int:
        """Bytes fed and not yet delivered as messages."""
        return len(self._buffer) - self._at

    @property
    def mid_message(self) -> bool:
        """Whether the bytes fed so far end inside a message.

        Whole messages that wait for :meth:`next_message` are looked through by their lengths, so
        this is the same before and after they are taken. False after an error.
        """
        at = self._at
        while at < len(self._buffer):
            total = int.from_bytes(self._buffer[at : at + 4], "big")
            if at + 4 > len(self._buffer) or total < EVENT_FRAMING_BYTES:
                return True
            at += total
        return at > len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Take in bytes of the stream. The caller owes calls of :meth:`next_message`."""
        if self._error is not None:  # rule 5
            return
        if self._at == len(self._buffer):
            self._buffer = data
        elif isinstance(self._buffer, bytearray):
            del self._buffer[: self._at]
            self._buffer += data
        else:
            gathered = bytearray(memoryview(self._buffer)[self._at :])
            gathered += data
            self._buffer = gathered
        self._at = 0

    def next_message(self) -> Message | None:
        """The next whole message, or None until more bytes come.

        Raises:
            EventStreamError: a rule is broken; every later call raises the same again.
        """
        raw = self.next_raw()
        if raw is None:
            return None
        try:
            return Message(decode_headers(raw[0]), raw[1])  # rule 4
        except EventStreamError as error:
            self._fail(error)
            raise

    def next_raw(self) -> tuple[bytes, bytes] | None:
        """The next whole message as header block and payload, or None until more bytes come.

        The block is still encoded: rule 4 is left to the caller.

        Raises:
            EventStreamError: another rule is broken; every later call raises the same again.
        """
        if self._error is not None:  # rule 5
            reason, oversize = self._error
            raise EventStreamError(reason, oversize=oversize)
        buffer = self._buffer
        at = self._at
        available = len(buffer) - at
        if available < (self._total or _PRELUDE_BYTES):
            self._wait()
            return None
        try:
            if not self._total:
                self._total, self._headers_length = self._checked_prelude(buffer, at)
                if available < self._total:
                    self._wait()
                    return None
            raw = _cut(buffer, at, self._total, self._headers_length)  # rule 3
        except EventStreamError as error:
            self._fail(error)
            raise
        at += self._total
        if at == len(buffer):
            # Nothing is kept of what is delivered: the next bytes may be an hour away.
            self._buffer = b""
            at = 0
        self._at = at
        self._total = 0
        return raw

    def drop(self) -> None:
        """Forget the bytes that are held."""
        self._buffer = b""
        self._at = 0
        self._total = 0

    def _checked_prelude(self, buffer: bytes | bytearray, at: int) -> tuple[int, int]:
        total, headers_length = _read_prelude(buffer, at)  # rule 1
        payload_length = total - headers_length - EVENT_FRAMING_BYTES
        if headers_length > self._max_headers:  # rule 2
            raise EventStreamError(
                f"the headers have {headers_length} bytes; "
                f"they must have at most {self._max_headers}",
                oversize=True,
            )
        if payload_length > self._max_payload:
            raise EventStreamError(
                f"the payload has {payload_length} bytes; it must have at most {self._max_payload}",
                oversize=True,
            )
        return total, headers_length

    def _wait(self) -> None:
        """Keep the beginning of a message, and nothing of what was delivered before it."""
        if self._at:
            self._buffer = bytearray(memoryview(self._buffer)[self._at :])
            self._at = 0

    def _fail(self, error: EventStreamError) -> None:
        self._error = (error.reason, error.oversize)
        self.drop()
