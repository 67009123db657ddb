"""Events of ``InvokeEndpointWithResponseStream``: an answer by its chunks, and how it broke off.

Source: AWS's ``sagemaker-runtime`` model. A part is its bytes and nothing else; exceptions are
those of the bidirectional operation, with error codes of this one: their encoding is
:func:`partway.protocol.event_stream.writer.encode_error`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from zlib import crc32

from partway.protocol.event_stream.writer import encode_head, part_headers

#: Error codes of a ``ModelStreamError``: the model was not done in time, or its connection broke.
TIME_EXCEEDED: Final = "ModelInvocationTimeExceeded"
STREAM_BROKEN: Final = "StreamBroken"

_HEADERS: Final = part_headers()

#: Lengths of chunks whose heads are remembered: tokens have few, and a head takes longer than they.
_REMEMBERED: Final = 256


def encode_chunk(chunk: bytes) -> bytes:
    """A chunk of a container's answer as an event.

    Args:
        chunk: its bytes, as they came, MAX_PART_BYTES at most; a longer one is several events,
            each of some of it.
    """
    head, checksum = _head(len(chunk))
    return b"".join((head, chunk, crc32(chunk, checksum).to_bytes(4, "big")))


@lru_cache(_REMEMBERED)
def _head(size: int) -> tuple[bytes, int]:
    """What stands before a chunk of so many bytes, and its checksum."""
    head = encode_head(_HEADERS, size)
    return head, crc32(head)
