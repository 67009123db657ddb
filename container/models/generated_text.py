"""Answers in text-generation-inference's form, which SageMaker's own containers give.

https://huggingface.co/docs/text-generation-inference/reference/api_reference
"""

from __future__ import annotations

import json
from typing import Final

#: The media type of an answer in events.
EVENT_STREAM: Final = "text/event-stream"


def whole_answer(text: str) -> bytes:
    return json_of([{"generated_text": text}])


def token_data(piece: str, index: int, whole: str | None = None) -> bytes:
    """Return the data of an event with a piece of text.

    Args:
        index: of the piece, from 1 on.
        whole: the whole text, in the last event.
    """
    token = {"id": 0, "text": piece, "logprob": 0.0, "special": False}
    return json_of({"index": index, "token": token, "generated_text": whole, "details": None})


def server_sent_event(data: bytes) -> bytes:
    """Return an event of one line: JSON text has no line ends."""
    return b"data: %b\n\n" % data


def json_of(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
