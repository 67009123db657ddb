"""Requests for generated text: plain text, or JSON with options.

Unsupported options are refused by name. A client that asks for a penalty, and gets an answer
without it, would take the answer for another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from partway.container.models.text.request_members import (
    Members,
    Refused,
    flag_of,
    members_of,
    quoted,
    string_of,
    text_of,
)
from partway.container.models.text.sampling_options import (
    OPTIONS,
    Sampling,
    known_members,
    sampling_of,
)
from partway.container.models.text.tools import ToolCall, Tools

Role = Literal["system", "user", "assistant", "tool"]

#: Messages of one conversation. A chat template is a program that takes some 10 µs per message: a
#: hundredth of a second in all.
MAX_TURNS: Final = 1024

_ROLES: Final = ("system", "user", "assistant")
_KNOWN: Final = OPTIONS | {"messages", "prompt", "max_new_tokens", "queue"}
_IN_CHAT_ONLY = "it is allowed only in the body of a chat completion"

#: Names that belong in another kind of request, with a hint.
ELSEWHERE: Final[Mapping[str, str]] = {
    "max_tokens": "use max_new_tokens",
    "max_completion_tokens": "use max_new_tokens",
    "model": _IN_CHAT_ONLY,
    "user": _IN_CHAT_ONLY,
    "stream": _IN_CHAT_ONLY,
    "stream_options": _IN_CHAT_ONLY,
}


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """A turn of a conversation.

    Attributes:
        calls: of the assistant: the tools that it called.
    """

    role: Role
    content: str
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """A parsed request, with exactly one of ``messages`` and ``prompt``.

    Attributes:
        messages: the whole conversation, instead of the remembered one; the last turn is a user's.
        prompt: the next user's turn.
        sampling: how to generate.
        queue: whether to wait for the current answer instead of interrupting it.
        raw: whether the model continues the prompt as it is, without its chat template.
        tools: the tools that the reply may call.

    Raises:
        ValueError: both of ``messages`` and ``prompt`` are given, or neither.
    """

    messages: tuple[ChatTurn, ...] | None = None
    prompt: str | None = None
    sampling: Sampling = field(default_factory=Sampling)
    queue: bool = False
    raw: bool = False
    tools: Tools | None = None

    def __post_init__(self) -> None:
        if (self.messages is None) is (self.prompt is None):
            raise ValueError("an ask must have either messages or a prompt")


def prompt_of(message: str | bytes) -> Ask:
    """Take text as the next user's turn, whatever the text is.

    Raises:
        Refused: the message is not UTF-8 (Close 1007), too large (1009, or 413), or empty (1008).
    """
    return Ask(prompt=_not_empty("the prompt", text_of(message)))


def ask_of(message: str | bytes | Members) -> Ask:
    """Parse the body of a request that is not a chat completion, or a message in JSON.

    Args:
        message: text; with ``{`` as its first character after white space it is JSON, otherwise a
            prompt. Or the members from :func:`members_of`.

    Raises:
        Refused: the message is not UTF-8 or not JSON (Close 1007), too large (1009, or 413), or
            asks for something unsupported (1008).
    """
    if isinstance(message, str | bytes):
        members = members_of(message)
        if members is None:
            return prompt_of(message)
        message = members
    members = known_members(message, _KNOWN, ELSEWHERE)
    sampling = sampling_of(members, "max_new_tokens")
    queue = flag_of(members, "queue")
    if "messages" in members:
        if "prompt" in members:
            raise Refused("messages, prompt: both were given; send only one of them")
        return Ask(messages=turns_of(members["messages"]), sampling=sampling, queue=queue)
    if "prompt" not in members:
        raise Refused("prompt: missing; the request must have prompt or messages")
    prompt = _not_empty("prompt", string_of("prompt", members["prompt"]))
    return Ask(prompt=prompt, sampling=sampling, queue=queue)


def turns_of(value: object) -> tuple[ChatTurn, ...]:
    """Parse the turns of ``messages``.

    Raises:
        Refused: the value is not a conversation that ends with a user's turn.
    """
    if not isinstance(value, list) or not value:
        raise Refused("messages: must be a list of at least one message")
    if len(value) > MAX_TURNS:
        raise Refused(f"messages: must have at most {MAX_TURNS} items")
    turns = tuple(_turn(f"messages[{at}]", each) for at, each in enumerate(value))
    if turns[-1].role != "user":
        raise Refused("messages: the last message must have the role user")
    _not_empty(f"messages[{len(turns) - 1}].content", turns[-1].content)
    return turns


def _turn(name: str, value: object) -> ChatTurn:
    if not isinstance(value, dict):
        raise Refused(f"{name}: must be an object with role and content")
    for member, content in value.items():
        # Libraries send a received message again, with all its null members.
        if member not in ("role", "content") and content is not None:
            raise Refused(f"{name}: {quoted(member)} is unknown; a message has role and content")
    role = value.get("role")
    if role not in _ROLES:
        raise Refused(f"{name}.role: must be one of {', '.join(_ROLES)}")
    content = value.get("content")
    return ChatTurn(role, string_of(f"{name}.content", content))


def _not_empty(name: str, text: str) -> str:
    if not text or text.isspace():
        raise Refused(f"{name}: must not be empty")
    return text
