"""Chat completions in the form of OpenAI's API, as one object or as chunks.

https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from partway.container.models.openai_events import DONE, json_of
from partway.container.models.text.call_forms import CallForm
from partway.container.models.text.call_reader import CallReader
from partway.container.models.text.openai_answers import (
    FinishReason,
    finish_reason,
    usage_members,
    with_report,
)
from partway.container.models.text.replies import TextReply
from partway.container.models.text.token_scores import ContentReport, TokenNames


class ChatAnswer:
    """One chat completion.

    Args:
        id: the completion's unique id, ``chatcmpl-…``.
        created: when the completion began, as Unix time in seconds.
        include_usage: whether chunks count tokens; then each has the member ``usage``.
        call_form: how the reply may call tools; None if it may not.
        token_names: of the tokens whose log probabilities are reported; None for no report.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 (what OpenAI calls it)
        model: str,
        created: int,
        *,
        include_usage: bool = False,
        call_form: CallForm | None = None,
        token_names: TokenNames | None = None,
    ) -> None:
        self._head = {"id": id, "created": created, "model": model}
        self._include_usage = include_usage
        self._calls = None if call_form is None else CallReader(call_form)
        self._token_names = token_names

    async def whole(self, reply: TextReply) -> bytes:
        """Return the answer as one object, ``chat.completion``."""
        report = None if self._token_names is None else ContentReport(self._token_names)
        async for piece in reply.pieces():
            self._deltas(piece, reply)
            if report is not None:
                report.add(reply.take_scores())
        message: dict[str, object] = {"role": "assistant", "content": reply.text, "refusal": None}
        if self._calls is not None and self._calls.calls:
            message["content"] = self._calls.content or None
            message["tool_calls"] = [each.members() for each in self._calls.calls]
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": self._finish_reason(reply),
        }
        answer = {**self._head, "object": "chat.completion", "choices": [choice]}
        data = json_of({**answer, "usage": usage_members(reply.usage)})
        return data if report is None else with_report(data, report.parts())

    async def events(self, reply: TextReply) -> AsyncGenerator[bytes]:
        """Yield the chunks: the role, the pieces of the reply, its end, usage, and ``[DONE]``."""
        begun = False
        async for piece in reply.pieces():
            if not begun:
                begun = True
                yield self._chunk({"role": "assistant", "content": ""})
            # Several deltas may come of one piece; its tokens are reported once.
            for delta in self._deltas(piece, reply):
                yield self._chunk(delta, self._logprobs(reply))
        yield self._chunk({}, self._logprobs(reply), self._finish_reason(reply))
        if self._include_usage:
            yield self._event([], {"usage": usage_members(reply.usage)})
        yield DONE

    def _deltas(self, piece: str, reply: TextReply) -> list[dict[str, object]]:
        if self._calls is None:
            return [{"content": piece}] if piece else []
        deltas = self._calls.add(piece)
        if reply.finish is not None:
            deltas += self._calls.end(cut=reply.is_cut)
        return deltas

    def _logprobs(self, reply: TextReply) -> dict[str, object] | None:
        """Report the tokens that came since the last report."""
        if self._token_names is None:
            return None
        new = reply.take_scores()
        return self._token_names.content_of(new) if new else None

    def _finish_reason(self, reply: TextReply) -> FinishReason:
        reason = finish_reason(reply)
        called = self._calls is not None and self._calls.calls
        return "tool_calls" if called and not reply.is_cut else reason

    def _chunk(
        self,
        delta: dict[str, object],
        logprobs: dict[str, object] | None = None,
        finish: FinishReason | None = None,
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return self._event([choice], {"usage": None} if self._include_usage else {})

    def _event(self, choices: list[dict[str, object]], usage: dict[str, object]) -> bytes:
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": choices, **usage}
        return json_of(chunk)
