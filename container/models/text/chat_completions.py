"""Chat completions in the form of OpenAI's API: request bodies, answers and events.

https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from partway.container.models.text.generation_request import (
    IMPOSSIBLE,
    MAX_TURNS,
    Ask,
    ChatTurn,
    Members,
    Refused,
    Role,
    asks_nothing,
    flag_of,
    members_of,
    quoted,
    sampling_of,
    string_of,
)
from partway.protocol.openai.errors import error_body

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
_KNOWN: Final = _TELLTALE | {"messages", "temperature", "top_p", "stop"}

#: Members that this model cannot obey, with the reason.
_REFUSED: Final[Mapping[str, str]] = {
    name: IMPOSSIBLE[name]
    for name in (
        *("n", "logprobs", "top_logprobs", "tools", "functions", "response_format"),
        *("tool_choice", "function_call"),
    )
}
#: Values of these that ask for nothing beyond those of :data:`~.generation_request.IMPOSSIBLE`.
_ASK_NOTHING: Final[Mapping[str, tuple[object, ...]]] = {
    "top_logprobs": (0,),
    "best_of": (1,),
    "tool_choice": ("none", "auto"),
    "function_call": ("none", "auto"),
}
_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",  # OpenAI's newer name
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",  # OpenAI's older name
}
#: Parts of a message whose text is read, by their types.
_TEXT_PARTS: Final = {"text": "text", "refusal": "refusal"}


@dataclass(frozen=True, slots=True)
class ChatAsk:
    """A parsed chat completion request.

    Attributes:
        ask: the generation request; it always has ``messages``.
        stream: whether the answer is sent as events.
        include_usage: whether a last event counts tokens.
        model: the name that the client used, which the answer repeats; None if it gave none, or an
            empty one.
        ignored: names of members that have no effect.
    """

    ask: Ask
    stream: bool = False
    include_usage: bool = False
    model: str | None = None
    ignored: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int
    completion_tokens: int


def is_chat(members: Members) -> bool:
    """Whether a JSON body is a chat completion request, and not an :class:`Ask`."""
    return "messages" in members and not _TELLTALE.isdisjoint(members)


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
    members = effective(members, _REFUSED)
    if "messages" not in members:
        raise Refused("messages: missing")
    stream = flag_of(members, "stream")
    return ChatAsk(
        Ask(
            messages=_turns(members["messages"]),
            sampling=sampling_of(members, limit_of(members)),
        ),
        stream=stream,
        include_usage=stream and usage_is_wanted(members),
        model=model_of(members),
        ignored=frozenset(members) - _KNOWN,
    )


def effective(members: Members, refused: Mapping[str, str]) -> Members:
    """Return the members that ask for something: null means absent. Unknown members are left in.

    Args:
        members: of a request of OpenAI's API.
        refused: members that the model cannot obey, with the reason.

    Raises:
        Refused: a member of ``refused`` has a value with an effect.
    """
    for name, reason in refused.items():
        value = members.get(name)
        if value is None or asks_nothing(name, value) or value in _ASK_NOTHING.get(name, ()):
            continue
        raise Refused(f"{name}: {reason}")
    return {
        name: value for name, value in members.items() if value is not None and name not in refused
    }


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
        return json_of(
            {
                **self._head,
                "object": "chat.completion",
                "choices": [choice],
                "usage": usage_members(usage),
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
        return self._event([], {"usage": usage_members(usage)})

    def _chunk(self, delta: dict[str, str], finish_reason: FinishReason | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self._event([choice], self._absent)

    def _event(self, choices: list[dict[str, object]], usage: dict[str, object]) -> bytes:
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": choices, **usage}
        return sse(json_of(chunk))


def error_event(reason: str, status: int) -> bytes:
    """Return the final event of an answer that failed after its head; no :data:`DONE` follows."""
    return sse(error_body(reason, status))


def limit_of(members: Members) -> str:
    """Return the request's name for the limit of new tokens; ``max_tokens`` is the older one."""
    new = "max_completion_tokens"
    return new if new in members else "max_tokens"


def usage_is_wanted(members: Members) -> bool:
    """Whether the events of an answer end with a count of tokens."""
    options = members.get("stream_options")
    if options is None:
        return False
    if not isinstance(options, dict):
        raise Refused('stream_options: must be an object, such as {"include_usage": true}')
    return options.get("include_usage") is not None and flag_of(options, "include_usage")


def model_of(members: Members) -> str | None:
    """Return the model's name; AWS's clients send an empty one, which counts as absent."""
    name = string_of("model", members.get("model", ""))
    if len(name) > MAX_MODEL_CHARACTERS:
        raise Refused(f"model: must be a name of at most {MAX_MODEL_CHARACTERS} characters")
    return name or None


def _turns(value: object) -> tuple[ChatTurn, ...]:
    """Read messages as OpenAI's clients send them, replies sent back included."""
    if not isinstance(value, list) or not value:
        raise Refused("messages: must be a list of at least one message")
    if len(value) > MAX_TURNS:
        raise Refused(f"messages: must have at most {MAX_TURNS} items")
    turns = tuple(_turn(f"messages[{at}]", each) for at, each in enumerate(value))
    last = turns[-1]
    if last.role == "user" and not last.content.strip():
        raise Refused(f"messages[{len(turns) - 1}].content: must not be empty")
    return turns


def _turn(name: str, value: object) -> ChatTurn:
    if not isinstance(value, dict):
        raise Refused(f"{name}: must be an object with role and content")
    role = value.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise Refused(f"{name}.role: must be one of {', '.join(_ROLES)}")
    content = value.get("content")
    if content is None:  # a reply that only called tools
        content = ""
    elif isinstance(content, list):
        content = "\n".join(_part(f"{name}.content[{at}]", each) for at, each in enumerate(content))
    return ChatTurn(_ROLES[role], string_of(f"{name}.content", content))


def _part(name: str, value: object) -> str:
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(kind, str):
        raise Refused(f"{name}: must be an object with a type, such as text")
    if kind not in _TEXT_PARTS:
        raise Refused(f"{name}: the type is {quoted(kind)}; this model takes text alone")
    return string_of(f"{name}.{_TEXT_PARTS[kind]}", value.get(_TEXT_PARTS[kind]))


def usage_members(usage: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def json_of(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def sse(data: bytes) -> bytes:
    # JSON text has no line ends, so one line is enough.
    return b"data: %b\n\n" % data
