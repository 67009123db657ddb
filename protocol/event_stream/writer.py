"""Event stream encoding: messages, parts, signed events and the final error (clause 2.3)."""

from __future__ import annotations

import json
import struct
from bisect import bisect_right
from collections.abc import Mapping
from typing import Final
from zlib import crc32

from partway.protocol.event_stream.headers import Header, HeaderType, encode_headers
from partway.protocol.event_stream.part_headers import DATE, SIGNATURE, SIGNATURE_BYTES, SIGNED
from partway.protocol.limits import EVENT_FRAMING_BYTES, EXCEPTION_EVENT_BYTES
from partway.protocol.parts import (
    CompletionState,
    DataType,
    InternalStreamFailure,
    ModelStreamError,
    PayloadPart,
    StreamError,
)

CONTENT_TYPE: Final = "application/vnd.amazon.eventstream"

_LENGTHS = struct.Struct("!II").pack
_U32_MAX: Final = 0xFFFFFFFF


def encode(headers: Mapping[str, Header], payload: bytes = b"") -> bytes:
    """Encode a message.

    Raises:
        ValueError: a header cannot be encoded (see :func:`encode_headers`), or the message would be
            too long.
    """
    return encode_raw(encode_headers(headers), payload)


def encode_raw(headers: bytes, payload: bytes) -> bytes:
    """Encode a message whose header block is already encoded.

    Raises:
        ValueError: the lengths do not fit into the prelude's 32 bits.
    """
    head = encode_head(headers, len(payload))
    return b"".join((head, payload, crc32(payload, crc32(head)).to_bytes(4, "big")))


def encode_head(headers: bytes, payload_size: int) -> bytes:
    """Encode the head of a message: its prelude and its already encoded header block.

    Raises:
        ValueError: the lengths do not fit into the prelude's 32 bits.
    """
    total = len(headers) + payload_size + EVENT_FRAMING_BYTES
    if total > _U32_MAX:
        raise ValueError(f"a message would have {total} bytes; it must have at most {_U32_MAX}")
    lengths = _LENGTHS(total, len(headers))
    return lengths + crc32(lengths).to_bytes(4, "big") + headers


def _string(value: str) -> Header:
    return Header(HeaderType.STRING, value)


def part_headers(**members: str) -> bytes:
    """Encode the headers of a ``PayloadPart`` for either operation that answers with events."""
    return encode_headers(
        {
            ":message-type": _string("event"),
            ":event-type": _string("PayloadPart"),
            # Needed on empty parts too: the Rust SDK refuses an event without it (clause 2.3-3).
            ":content-type": _string("application/octet-stream"),
            **{name: _string(value) for name, value in members.items()},
        }
    )


#: By type, then by state: two look-ups of enum members are faster than hashing a pair of them.
_PART_HEADERS = {
    data_type: {
        completion: part_headers(DataType=data_type.value, CompletionState=completion.value)
        for completion in CompletionState
    }
    for data_type in DataType
}


def encode_part(part: PayloadPart) -> bytes:
    """Encode a part as an event: of a response, or the inner message of a request.

    Both have the same headers (clause 2.3-1, -3). Our own client wraps the same message in
    :func:`wrap`.
    """
    payload, data_type, completion = part
    return encode_raw(_PART_HEADERS[data_type][completion], payload)


def wrap(inner: bytes, date_ms: int, signature: bytes) -> bytes:
    """Encode a client's signed event (clause 2.3-1).

    Args:
        inner: one encoded message; empty bytes end the input (clause 2.3-2).
        date_ms: when it was signed, in ms since 1970.
        signature: 32 bytes, made with the key that signed the request.

    Raises:
        ValueError: the signature is not 32 bytes long.
    """
    if len(signature) != SIGNATURE_BYTES:
        raise ValueError(f"a signature must have {SIGNATURE_BYTES} bytes, not {len(signature)}")
    return encode_raw(SIGNED.pack(DATE, date_ms, SIGNATURE, signature), inner)


def encode_error(error: StreamError) -> bytes:
    """Encode a response's final error as an event of at most 1,024 bytes (clauses 2.3-4 to 2.3-6).

    A message too long for that is clipped between two characters and ends in ``…``. The body is
    compact JSON in UTF-8: a letter outside ASCII takes two to four bytes, while an escape would
    take six or twelve.
    """
    match error:
        case ModelStreamError(code, message):
            members = {"ErrorCode": code}
        case InternalStreamFailure(message):
            members = {}
    headers = encode_headers(
        {
            ":message-type": _string("exception"),
            ":exception-type": _string(type(error).__name__),
            ":content-type": _string("application/json"),
        }
    )

    def body(text: str) -> bytes:
        value = {"Message": text, **members}
        # A lone surrogate has no UTF-8 form. One could come from a header that is not text.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")

    room = EXCEPTION_EVENT_BYTES - EVENT_FRAMING_BYTES - len(headers)
    whole = body(message)
    if len(whole) > room:
        # Bodies grow with the characters kept, and each character takes at least a byte.
        fitting = bisect_right(range(room), room, key=lambda kept: len(body(message[:kept] + "…")))
        whole = body(message[: max(fitting - 1, 0)] + "…")
    return encode_raw(headers, whole)
