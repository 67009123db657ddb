"""Raw event stream messages for tests, made with ``struct`` and ``zlib`` alone.

Nothing here comes from the code under test: a message is what clause 2.3 draws, and every field can
be made wrong. It is read by botocore, which is AWS's own.

>>> message(b"", b"").hex()
'000000100000000005c248eb7d98c8ff'
>>> string("P", "x").hex()
'0150070001' + '78'
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, NamedTuple

from botocore.eventstream import EventStreamBuffer

TRUE, FALSE, BYTE, SHORT, INT, LONG, BYTES, STRING, TIMESTAMP, UUID = range(10)

_INTS = {BYTE: "!b", SHORT: "!h", INT: "!i", LONG: "!q", TIMESTAMP: "!q"}

DATE_MS = 1_767_323_045_678
SIGNATURE = bytes(range(32))


def header(name: str | bytes, kind: int, value: Any = None) -> bytes:
    """One header; ``value`` is an int, bytes or nothing, as its type wants it.

    A type that does not exist writes ``value`` as it is.
    """
    encoded = name if isinstance(name, bytes) else name.encode()
    if kind in _INTS:
        written = struct.pack(_INTS[kind], value)
    elif kind in (BYTES, STRING):
        written = struct.pack("!H", len(value)) + value
    else:
        written = value or b""
    return struct.pack("!B", len(encoded)) + encoded + struct.pack("!B", kind) + written


def string(name: str, value: str) -> bytes:
    return header(name, STRING, value.encode())


def message(
    headers: bytes = b"",
    payload: bytes = b"",
    *,
    total: int | None = None,
    headers_length: int | None = None,
    prelude_crc: int | None = None,
    crc: int | None = None,
) -> bytes:
    """One message as bytes.

    Args:
        headers: the header block.
        payload: as it is.
        total: the first length, the right one by default.
        headers_length: the second, likewise.
        prelude_crc: the checksum of those two, likewise.
        crc: the checksum of all before it, likewise.
    """
    lengths = struct.pack(
        "!II",
        len(headers) + len(payload) + 16 if total is None else total,
        len(headers) if headers_length is None else headers_length,
    )
    head = lengths + struct.pack("!I", zlib.crc32(lengths) if prelude_crc is None else prelude_crc)
    body = head + headers + payload
    return body + struct.pack("!I", zlib.crc32(body) if crc is None else crc)


def part_headers(
    data_type: str | None = "BINARY",
    completion: str | None = "COMPLETE",
    *,
    message_type: str | None = "event",
    event_type: str | None = "PayloadPart",
    content_type: str | None = "application/octet-stream",
    more: bytes = b"",
) -> bytes:
    """The header block of a part in the order of the Python SDK; None leaves a header out."""
    pairs = {
        ":message-type": message_type,
        ":event-type": event_type,
        "DataType": data_type,
        "CompletionState": completion,
        ":content-type": content_type,
    }
    written = [string(name, value) for name, value in pairs.items() if value is not None]
    return b"".join(written) + more


def part(payload: bytes = b"", *headers: str | None, **more: Any) -> bytes:
    """A part's message: an inner one of a request."""
    return message(part_headers(*headers, **more), payload)


def signed_headers(date_ms: int = DATE_MS, signature: bytes = SIGNATURE) -> bytes:
    """The header block of a signed message."""
    return header(":date", TIMESTAMP, date_ms) + header(":chunk-signature", BYTES, signature)


def signed(inner: bytes, date_ms: int = DATE_MS, signature: bytes = SIGNATURE) -> bytes:
    """A signed message around an inner one, or around nothing: the end of the input."""
    return message(signed_headers(date_ms, signature), inner)


def exception(kind: str, body: bytes) -> bytes:
    headers = {
        ":message-type": "exception",
        ":exception-type": kind,
        ":content-type": "application/json",
    }
    return message(b"".join(string(*pair) for pair in headers.items()), body)


class Read(NamedTuple):
    headers: dict[str, Any]
    payload: bytes


def read(data: bytes) -> list[Read]:
    """All messages of ``data``, by botocore.

    Raises:
        botocore.eventstream.ParserError: a checksum is wrong, or a header is there twice.
        ValueError: something is behind the last message.
    """
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    found = [Read(each.headers, each.payload) for each in buffer]
    if sum(len(message) for message in _lengths(data)) != len(data):
        raise ValueError("the last message is not whole")
    return found


def _lengths(data: bytes) -> list[bytes]:
    cut = []
    while data:
        (total,) = struct.unpack("!I", data[:4])
        cut.append(data[:total])
        data = data[total:]
    return cut
