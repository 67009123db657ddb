"""Completions of a plain prompt: OpenAI's ``/v1/completions``.

https://platform.openai.com/docs/api-reference/completions
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from partway.container.models.openai_events import DONE, json_of
from partway.container.models.text.chat_completions import (
    MAX_TOP_LOGPROBS,
    limit_of,
    members_with_effect,
    model_of,
    usage_is_wanted,
)
from partway.container.models.text.generation_request import Ask
from partway.container.models.text.openai_answers import (
    FinishReason,
    finish_reason,
    usage_members,
    with_report,
)
from partway.container.models.text.replies import TextReply
from partway.container.models.text.request_members import (
    Members,
    Refused,
    flag_of,
    non_empty_string_of,
    whole_number_of,
)
from partway.container.models.text.sampling_options import IMPOSSIBLE, OPTIONS, sampling_of
from partway.container.models.text.token_scores import ListsReport, TokenNames

_KNOWN: Final = OPTIONS | {"model", "prompt", "max_tokens", "logprobs", "stream", "stream_options"}
_REFUSED: Final[Mapping[str, str]] = {
    "n": IMPOSSIBLE["n"],
    "best_of": IMPOSSIBLE["n"],
    "suffix": "this model cannot insert text before a suffix; leave it out",
}


@dataclass(frozen=True, slots=True)
class CompletionAsk:
    """A parsed request.

    Attributes:
        ask: the generation request; its prompt is raw.
        stream: whether the answer is sent as events.
        include_usage: whether a last event counts tokens.
        model: the name that the client used; None if it gave none.
        ignored: names of members that have no effect.
    """

    ask: Ask
    stream: bool = False
    include_usage: bool = False
    model: str | None = None
    ignored: frozenset[str] = frozenset()


def completion_of(members: Members) -> CompletionAsk:
    """Parse the body of ``/v1/completions``.

    Raises:
        Refused: it has no prompt, several, or tokens; or a value out of range.
    """
    members = members_with_effect(members, _REFUSED)
    prompt = members.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        (prompt,) = prompt
    if not isinstance(prompt, str):
        raise Refused("prompt: must be one string; this model takes neither several nor tokens")
    stream = flag_of(members, "stream")
    top_logprobs = whole_number_of(members, "logprobs", 0, MAX_TOP_LOGPROBS)
    sampling = replace(sampling_of(members, limit_of(members)), top_logprobs=top_logprobs)
    return CompletionAsk(
        Ask(prompt=non_empty_string_of("prompt", prompt), sampling=sampling, raw=True),
        stream=stream,
        include_usage=stream and usage_is_wanted(members),
        model=model_of(members),
        ignored=frozenset(members) - _KNOWN,
    )


class TextAnswer:
    """One answer of ``/v1/completions``, as one object or as events.

    Args:
        token_names: of the tokens whose log probabilities are reported; None for no report.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 (what OpenAI calls it)
        model: str,
        created: int,
        *,
        include_usage: bool = False,
        token_names: TokenNames | None = None,
    ) -> None:
        self._head = {"id": id, "object": "text_completion", "created": created, "model": model}
        self._include_usage = include_usage
        self._token_names = token_names

    async def whole(self, reply: TextReply) -> bytes:
        report = None if self._token_names is None else ListsReport(self._token_names)
        async for _ in reply.pieces():
            if report is not None:
                report.add(reply.take_scores())
        choice = _choice(reply.text, None, finish_reason(reply))
        usage = usage_members(reply.usage)
        data = json_of({**self._head, "choices": [choice], "usage": usage})
        return data if report is None else with_report(data, report.parts())

    async def events(self, reply: TextReply) -> AsyncGenerator[bytes]:
        absent = {"usage": None} if self._include_usage else {}
        async for piece in reply.pieces():
            finish = finish_reason(reply) if reply.finish is not None else None
            choice = _choice(piece, self._logprobs(reply), finish)
            yield json_of({**self._head, "choices": [choice], **absent})
        if self._include_usage:
            usage = usage_members(reply.usage)
            yield json_of({**self._head, "choices": [], "usage": usage})
        yield DONE

    def _logprobs(self, reply: TextReply) -> dict[str, object] | None:
        """Report the tokens that came since the last report."""
        if self._token_names is None:
            return None
        return self._token_names.lists_of(reply.take_scores())


def _choice(
    text: str, logprobs: dict[str, object] | None, finish_reason: FinishReason | None
) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "logprobs": logprobs}
    return {**choice, "finish_reason": finish_reason}
