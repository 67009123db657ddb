"""Answers in text-generation-inference's form, which SageMaker's own containers give.

https://huggingface.co/docs/text-generation-inference/reference/api_reference
"""

from __future__ import annotations

from partway.container.models.openai_events import json_of


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
