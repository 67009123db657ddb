"""Answers in the form of OpenAI's API, as far as chat completions and completions share it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import Final, Literal, Protocol

from partway.container.errors import ModelError
from partway.container.models.openai_events import server_sent_event
from partway.container.models.text.replies import TextReply, Usage
from partway.container.models.text.token_scores import Buffer
from partway.protocol.openai.errors import error_body

_NO_REPORT: Final = b'"logprobs":null'

FinishReason = Literal["stop", "length", "tool_calls"]


class OpenAIAnswer(Protocol):
    """The form of one answer."""

    def events(self, reply: TextReply) -> AsyncGenerator[bytes]:
        """Yield the data of the answer's events as the reply is generated.

        Raises:
            ModelError: the reply fails.
        """

    async def whole(self, reply: TextReply) -> bytes:
        """Return the answer as one object, once the reply is over.

        Raises:
            ModelError: the reply fails.
        """


def finish_reason(reply: TextReply) -> FinishReason:
    return "length" if reply.finish == "length" else "stop"


def with_report(answer: bytes, report: Iterable[Buffer]) -> bytes:
    """Put a report of tokens into a whole answer.

    Args:
        answer: its choice has null for ``logprobs``, and no text of the model behind that.
        report: the value of ``logprobs``, as parts of JSON.
    """
    before, _, after = answer.rpartition(_NO_REPORT)
    return b"".join((before, _NO_REPORT.removesuffix(b"null"), *report, after))


def usage_members(usage: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


async def server_sent(events: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Yield server-sent events with this data, which is JSON or another single line.

    A failure after the first event is an event too, and the last one.

    Raises:
        ModelError: the reply fails before the first event.
    """
    begun = False
    try:
        async for data in events:
            yield server_sent_event(data)
            begun = True
    except ModelError as error:
        if not begun:
            raise
        yield server_sent_event(error_body(error.reason, error.status))
