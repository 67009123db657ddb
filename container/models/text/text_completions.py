"""Completions of a plain prompt: OpenAI's ``/v1/completions``, and Hugging Face's ``inputs``.

https://platform.openai.com/docs/api-reference/completions, and the ``generate`` API of
text-generation-inference, which SageMaker's own containers speak on ``/invocations``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from partway.container.models.text.chat_completions import (
    FinishReason,
    Usage,
    effective,
    json_of,
    limit_of,
    model_of,
    sse,
    usage_is_wanted,
    usage_members,
)
from partway.container.models.text.generation_request import (
    IMPOSSIBLE,
    Ask,
    Members,
    Refused,
    Sampling,
    flag_of,
    sampling_of,
    string_of,
)

_KNOWN: Final = frozenset(
    {
        *("model", "prompt", "max_tokens", "temperature", "top_p", "stop", "stream"),
        "stream_options",
    }
)
_REFUSED: Final[Mapping[str, str]] = {
    "n": IMPOSSIBLE["n"],
    "best_of": IMPOSSIBLE["n"],
    "suffix": "this model cannot insert text before a suffix; leave it out",
}
_PARAMETERS: Final = frozenset(
    {
        *("max_new_tokens", "temperature", "top_p", "stop", "do_sample", "return_full_text"),
        "details",
    }
)


@dataclass(frozen=True, slots=True)
class CompletionAsk:
    """A parsed request of either form.

    Attributes:
        ask: the generation request; its prompt is raw.
        stream: whether the answer is sent as events.
        include_usage: whether a last event counts tokens.
        model: the name that the client used; None if it gave none.
        full_text: whether a whole answer begins with the prompt (``inputs`` alone).
        ignored: names of members that have no effect.
    """

    ask: Ask
    stream: bool = False
    include_usage: bool = False
    model: str | None = None
    full_text: bool = False
    ignored: frozenset[str] = frozenset()


def is_inputs(members: Members) -> bool:
    """Whether a JSON body has the form of text-generation-inference."""
    return "inputs" in members


def completion_of(members: Members) -> CompletionAsk:
    """Parse the body of ``/v1/completions``.

    Raises:
        Refused: it has no prompt, several, or tokens; or a value out of range.
    """
    members = effective(members, _REFUSED)
    prompt = members.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        (prompt,) = prompt
    if not isinstance(prompt, str):
        raise Refused("prompt: must be one string; this model takes neither several nor tokens")
    stream = flag_of(members, "stream")
    return CompletionAsk(
        Ask(
            prompt=_text("prompt", prompt),
            sampling=sampling_of(members, limit_of(members)),
            raw=True,
        ),
        stream=stream,
        include_usage=stream and usage_is_wanted(members),
        model=model_of(members),
        ignored=frozenset(members) - _KNOWN,
    )


def inputs_of(members: Members) -> CompletionAsk:
    """Parse ``{"inputs": "…", "parameters": {…}, "stream": …}``.

    Raises:
        Refused: ``inputs`` is not one string, or a parameter is out of range.
    """
    parameters = members.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise Refused("parameters: must be an object")
    given = {name: value for name, value in parameters.items() if value is not None}
    sampling = sampling_of(given, "max_new_tokens")
    if not flag_of(given, "do_sample", default=True):
        sampling = Sampling(sampling.max_new_tokens, 0.0, None, sampling.stop)
    return CompletionAsk(
        Ask(
            prompt=_text("inputs", string_of("inputs", members.get("inputs"))),
            sampling=sampling,
            raw=True,
        ),
        stream=flag_of(members, "stream"),
        full_text=flag_of(given, "return_full_text"),
        ignored=(frozenset(members) - {"inputs", "parameters", "stream"})
        | (frozenset(given) - _PARAMETERS),
    )


class TextCompletion:
    """One answer of ``/v1/completions``, as a whole or as events."""

    def __init__(self, id: str, model: str, created: int, *, include_usage: bool = False) -> None:  # noqa: A002 (what OpenAI calls it)
        self._head = {"id": id, "object": "text_completion", "created": created, "model": model}
        self._absent: dict[str, object] = {"usage": None} if include_usage else {}

    def whole(self, text: str, finish_reason: FinishReason, usage: Usage) -> bytes:
        return json_of(
            {
                **self._head,
                "choices": [_choice(text, finish_reason)],
                "usage": usage_members(usage),
            }
        )

    def chunk(self, text: str, finish_reason: FinishReason | None = None) -> bytes:
        return sse(
            json_of({**self._head, "choices": [_choice(text, finish_reason)], **self._absent})
        )

    def usage_chunk(self, usage: Usage) -> bytes:
        """Return the event with the token counts, sent if it was requested."""
        return sse(json_of({**self._head, "choices": [], "usage": usage_members(usage)}))


def generated(text: str) -> bytes:
    """Return a whole answer in the form of text-generation-inference."""
    return json_of([{"generated_text": text}])


def token_event(text: str, index: int, whole: str | None = None) -> bytes:
    """Return an event with a piece of text; the last one also has the whole text."""
    token = {"id": 0, "text": text, "logprob": 0.0, "special": False}
    return sse(json_of({"index": index, "token": token, "generated_text": whole, "details": None}))


def _choice(text: str, finish_reason: FinishReason | None) -> dict[str, Any]:
    return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}


def _text(name: str, text: str) -> str:
    if not text:
        raise Refused(f"{name}: must not be empty")
    return string_of(name, text)
