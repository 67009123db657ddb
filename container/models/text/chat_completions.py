"""Chat completions in the form of OpenAI's API: request bodies, answers and events.

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

#: The media types of a whole answer and of events.
JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"

#: The last event of an answer in events.
DONE: Final = b"data: [DONE]\n\n"

#: Each chunk repeats the model's name.
MAX_MODEL_CHARACTERS: Final = 256

#: With one of these beside ``messages``, a body is a chat completion request.
_TELLTALE: Final = frozenset(
    {"model", "max_tokens", "max_completion_tokens", "stream", "stream_options"}
)
_KNOWN: Final = _TELLTALE | {"messages", "temperature", "top_p", "stop", "user"}
_HINTS: Final = {
    "prompt": "use messages",
    "max_new_tokens": "use max_completion_tokens",
    "queue": "chat completions do not interrupt each other; leave it out",
}


@dataclass(frozen=True, slots=True)
class ChatAsk:
    """A parsed chat completion request.

    Attributes:
        ask: the generation request; it always has ``messages``.
        stream: whether the answer is sent as events.
        include_usage: whether a last event counts tokens.
        model: the name that the client used, which the answer repeats; None if it gave none.
    """

    ask: Ask
    stream: bool = False
    include_usage: bool = False
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int
    completion_tokens: int


def is_chat(members: Members) -> bool:
    """Whether a JSON body is a chat completion request, and not an :class:`Ask`."""
    return "messages" in members and not _TELLTALE.isdisjoint(members)


def invocation_of(body: bytes) -> Ask | ChatAsk:
    """Parse the body of a request to ``/invocations``, of either form.

    Raises:
        Refused: as in :func:`ask_of` and :func:`chat_of`.
    """
    members = members_of(body)
    if members is None:
        return ask_of(body)
    return chat_of(members) if is_chat(members) else ask_of(members)


def chat_of(body: bytes | Members) -> ChatAsk:
    """Parse a chat completion's body.

    Args:
        body: JSON, or its members from :func:`members_of`.

    Raises:
        Refused: the body is not a valid chat completion request; codes as in :func:`ask_of`.
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

    The events are :meth:`first_chunk`, any number of :meth:`chunk`, :meth:`last_chunk`, with
    ``include_usage`` :meth:`usage_chunk`, and :data:`DONE`.

    Args:
        id: the completion's unique id, ``chatcmpl-…``.
        created: when the completion began, as Unix time in seconds.
        include_usage: whether events count tokens; then each has the member ``usage``.
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
        """Return the answer as one object, ``chat.completion``."""
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
        """Return the first event, which has the role."""
        return self._chunk({"role": "assistant", "content": ""})

    def chunk(self, text: str) -> bytes:
        return self._chunk({"content": text})

    def last_chunk(self, finish_reason: FinishReason) -> bytes:
        return self._chunk({}, finish_reason)

    def usage_chunk(self, usage: Usage) -> bytes:
        """Return the event with the token counts, sent if it was requested."""
        return self._event([], {"usage": _usage(usage)})

    def _chunk(self, delta: dict[str, str], finish_reason: FinishReason | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self._event([choice], self._absent)

    def _event(self, choices: list[dict[str, object]], usage: dict[str, object]) -> bytes:
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": choices, **usage}
        return _sse(_json(chunk))


def error_body(reason: str, status: int) -> bytes:
    """Return the body of a refusal."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return _json({"error": {"message": reason, "type": kind, "param": None, "code": None}})


def error_event(reason: str, status: int) -> bytes:
    """Return the final event of an answer that failed after its head; no :data:`DONE` follows."""
    return _sse(error_body(reason, status))


def _max_tokens(members: Members) -> str:
    """Return the name that a request uses for the limit; ``max_tokens`` is the older name."""
    old, new = "max_tokens", "max_completion_tokens"
    if old in members and new in members:
        raise Refused(f"{old}, {new}: both were given; send only one of them")
    return old if old in members else new


def _include_usage(members: Members, stream: bool) -> bool:
    options = members.get("stream_options")
    if options is None:
        return False
    if not stream:
        raise Refused("stream_options: must be left out unless stream is true")
    if not isinstance(options, dict) or not options.keys() <= {"include_usage"}:
        raise Refused("stream_options: must be an object whose only member is include_usage")
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
    # JSON text has no line ends, so one line is enough.
    return b"data: %b\n\n" % data
