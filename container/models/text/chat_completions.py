"""Chat completions in the shape of OpenAI's API: its body in, its objects and events out.

https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, Literal

from partway.container.models.text.generation_request import (
    Ask,
    Members,
    Refused,
    ask_of,
    flag_of,
    known_members,
    members_of,
    sampling_of,
    string_of,
    turns_of,
)

FinishReason = Literal["stop", "length"]

#: The media types of a whole answer and of a streamed one.
JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"

#: The last event of a streamed answer.
DONE: Final = b"data: [DONE]\n\n"

#: Each chunk repeats the model's name.
MAX_MODEL_CHARACTERS: Final = 256

#: One of these beside ``messages``, and a body is a chat completion's.
_TELLTALE: Final = frozenset(
    {"model", "max_tokens", "max_completion_tokens", "stream", "stream_options"}
)
_KNOWN: Final = _TELLTALE | {"messages", "temperature", "top_p", "stop", "user"}
_HINTS: Final = {
    "prompt": "say messages",
    "max_new_tokens": "say max_completion_tokens",
    "queue": "a request interrupts no other; leave it out",
}


@dataclass(frozen=True, slots=True)
class ChatAsk:
    """What a chat completion's body asks for.

    Attributes:
        ask: what to generate; always ``messages``.
        stream: whether the answer is sent as events.
        include_usage: whether the events end with one that counts tokens.
        model: the name that the client used, which the answer repeats; None where it gave none.
    """

    ask: Ask
    stream: bool = False
    include_usage: bool = False
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one completion."""

    prompt_tokens: int
    completion_tokens: int


def is_chat(members: Members) -> bool:
    """Whether a body's JSON object is a chat completion's rather than an :class:`Ask`'s."""
    return "messages" in members and not _TELLTALE.isdisjoint(members)


def invocation_of(body: bytes) -> Ask | ChatAsk:
    """What the body of a request to ``/invocations`` asks for, of either kind.

    Raises:
        Refused: as :func:`ask_of` and :func:`chat_of` do.
    """
    members = members_of(body)
    if members is None:
        return ask_of(body)
    return chat_of(members) if is_chat(members) else ask_of(members)


def chat_of(body: bytes | Members) -> ChatAsk:
    """What a chat completion's body asks for.

    Args:
        body: JSON, or the members that :func:`members_of` has found in it.

    Raises:
        Refused: the body is not a chat completion's; with codes as in :func:`ask_of`.
    """
    members = members_of(body) if isinstance(body, bytes) else body
    if members is None:
        raise Refused("the body of a chat completion must be a JSON object")
    members = known_members(members, _KNOWN, _HINTS)
    if "messages" not in members:
        raise Refused("messages: missing")
    stream = flag_of(members, "stream")
    return ChatAsk(
        Ask(
            messages=turns_of(members["messages"], parts=True),
            sampling=sampling_of(members, _max_tokens(members)),
        ),
        stream=stream,
        include_usage=_include_usage(members, stream),
        model=_model(members),
    )


class Completion:
    """One chat completion, as a whole or as events.

    As events: :meth:`first_chunk`, any number of :meth:`chunk`, :meth:`last_chunk`, with
    ``include_usage`` then :meth:`usage_chunk`, and :data:`DONE`.

    Args:
        id: the id of this completion alone, ``chatcmpl-…``.
        model: the model's name.
        created: when the completion began, as Unix time in seconds.
        include_usage: whether the events are to count tokens; then each has the member ``usage``.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 (what OpenAI calls it)
        model: str,
        created: int,
        *,
        include_usage: bool = False,
    ) -> None:
        self._head = {"id": id, "created": created, "model": model}
        self._absent: dict[str, object] = {"usage": None} if include_usage else {}

    def whole(self, text: str, finish_reason: FinishReason, usage: Usage) -> bytes:
        """The answer as one object, ``chat.completion``."""
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "logprobs": None,
            "finish_reason": finish_reason,
        }
        return _json(
            {
                **self._head,
                "object": "chat.completion",
                "choices": [choice],
                "usage": _usage(usage),
            }
        )

    def first_chunk(self) -> bytes:
        """The event that says who speaks."""
        return self._chunk({"role": "assistant", "content": ""})

    def chunk(self, text: str) -> bytes:
        """The event with the next piece of text."""
        return self._chunk({"content": text})

    def last_chunk(self, finish_reason: FinishReason) -> bytes:
        """The event that says why the text is over."""
        return self._chunk({}, finish_reason)

    def usage_chunk(self, usage: Usage) -> bytes:
        """The event that counts tokens, for those who have asked for it."""
        return self._event([], {"usage": _usage(usage)})

    def _chunk(self, delta: dict[str, str], finish_reason: FinishReason | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self._event([choice], self._absent)

    def _event(self, choices: list[dict[str, object]], usage: dict[str, object]) -> bytes:
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": choices, **usage}
        return _sse(_json(chunk))


def error_body(reason: str, status: int) -> bytes:
    """The body of a response that says no.

    Args:
        reason: what the client is told.
        status: the response's.
    """
    kind = "invalid_request_error" if status < 500 else "server_error"
    return _json({"error": {"message": reason, "type": kind, "param": None, "code": None}})


def error_event(reason: str, status: int) -> bytes:
    """The last event of an answer that failed after its head had left; no :data:`DONE` follows."""
    return _sse(error_body(reason, status))


def _max_tokens(members: Members) -> str:
    """Which of the two names a request uses; ``max_tokens`` is the older one."""
    old, new = "max_tokens", "max_completion_tokens"
    if old in members and new in members:
        raise Refused(f"{old}, {new}: must be one of them, not both")
    return old if old in members else new


def _include_usage(members: Members, stream: bool) -> bool:
    options = members.get("stream_options")
    if options is None:
        return False
    if not stream:
        raise Refused("stream_options: must be left out unless stream is true")
    if not isinstance(options, dict) or not options.keys() <= {"include_usage"}:
        raise Refused("stream_options: must be an object with include_usage alone")
    if options.get("include_usage") is None:
        return False
    return flag_of(options, "include_usage")


def _model(members: Members) -> str | None:
    if "model" not in members:
        return None
    name = string_of("model", members["model"])
    if not 1 <= len(name) <= MAX_MODEL_CHARACTERS:
        raise Refused(f"model: must be a name of 1 to {MAX_MODEL_CHARACTERS} characters")
    return name


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _sse(data: bytes) -> bytes:
    # JSON holds no line end, so one line is enough.
    return b"data: %b\n\n" % data
