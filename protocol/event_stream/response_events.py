"""Response events, as a client reads them (clauses 2.3-3, 2.3-5)."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Final
from zlib import crc32

from partway.protocol.event_stream.headers import decode_headers
from partway.protocol.event_stream.part_headers import EventFault, text
from partway.protocol.event_stream.reader import EventReader
from partway.protocol.event_stream.writer import encode_head, part_headers
from partway.protocol.limits import ERROR_BODY_BYTES
from partway.protocol.parts import (
    InternalStreamFailure,
    ModelStreamError,
    PayloadPart,
    StreamError,
)

_HEADERS: Final = part_headers()

#: Chunk lengths whose heads are cached: tokens have few lengths, and encoding a head takes longer
#: than encoding a token.
_REMEMBERED: Final = 256


def encode_chunk(chunk: bytes) -> bytes:
    """Encode a chunk of a container's answer as an event.

    Args:
        chunk: its bytes, as they came, MAX_PART_BYTES at most. A longer chunk must be split into
            several events.
    """
    head, checksum = _head(len(chunk))
    return b"".join((head, chunk, crc32(chunk, checksum).to_bytes(4, "big")))


@lru_cache(_REMEMBERED)
def _head(size: int) -> tuple[bytes, int]:
    """Return the head of an event with ``size`` bytes of payload, and the head's checksum."""
    head = encode_head(_HEADERS, size)
    return head, crc32(head)


class ResponseEvents(EventReader[PayloadPart | ModelStreamError | InternalStreamFailure]):
    """A gateway's events, as a client reads them (clauses 2.3-3, 2.3-5)."""

    def __init__(self, max_part: int) -> None:
        super().__init__(max(max_part, ERROR_BODY_BYTES), max_part)

    def _read(
        self, block: bytes, payload: bytes
    ) -> PayloadPart | ModelStreamError | InternalStreamFailure:
        kind = self._kinds.get(block)
        if kind is None:
            headers = decode_headers(block)
            match text(headers, ":message-type"):
                case "event":
                    kind = self._kind(block, headers)
                case "exception":
                    return _exception(text(headers, ":exception-type"), payload)
                case _:
                    raise EventFault(":message-type must be event or exception in a response")
        return self._sized(kind, payload)


def _exception(name: str | None, payload: bytes) -> StreamError:
    if len(payload) > ERROR_BODY_BYTES:
        raise EventFault(
            f"an exception has {len(payload)} bytes; it must have at most {ERROR_BODY_BYTES}",
            oversize=True,
        )
    try:
        body = json.loads(payload.decode())
    except (ValueError, RecursionError):
        raise EventFault("the body of an exception must be JSON") from None
    if not isinstance(body, dict):
        raise EventFault("the body of an exception must be a JSON object")
    message, code = body.get("Message", ""), body.get("ErrorCode", "")
    if not isinstance(message, str) or not isinstance(code, str):
        raise EventFault("Message and ErrorCode of an exception must be strings")
    match name:
        case "ModelStreamError":
            return ModelStreamError(code, message)
        case "InternalStreamFailure":
            return InternalStreamFailure(message)
        case _:
            raise EventFault(":exception-type must be ModelStreamError or InternalStreamFailure")
