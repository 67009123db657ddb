"""Events of ``InvokeEndpointWithResponseStream``: an answer by its chunks, and how it broke off.

Source: AWS's ``sagemaker-runtime`` model. A part is its bytes and nothing else; exceptions are
those of the bidirectional operation, with error codes of this one: their encoding is
:func:`partway.protocol.part_events.encode_error`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from partway.protocol.eventstream import encode_raw
from partway.protocol.limits import MAX_PART_BYTES
from partway.protocol.part_events import part_headers

#: Error codes of a ``ModelStreamError``: the model was not done in time, or its connection broke.
TIME_EXCEEDED: Final = "ModelInvocationTimeExceeded"
STREAM_BROKEN: Final = "StreamBroken"

_HEADERS: Final = part_headers()


def encode_chunk(chunk: bytes) -> Iterator[bytes]:
    """A chunk of a container's answer as events: one, unless it is larger than a part may be.

    Args:
        chunk: its bytes, as they came; where there are none, there is no event.
    """
    for at in range(0, len(chunk), MAX_PART_BYTES):
        yield encode_raw(_HEADERS, chunk[at : at + MAX_PART_BYTES])
