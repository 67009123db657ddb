"""Requests for chat completions in the form of OpenAI's API.

https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from partway.container.models.text.generation_request import MAX_TURNS, Ask, ChatTurn, Role
from partway.container.models.text.request_members import (
    Members,
    Refused,
    flag_of,
    members_of,
    quoted,
    string_of,
    whole_number_of,
)
from partway.container.models.text.sampling_options import (
    IMPOSSIBLE,
    OPTIONS,
    asks_nothing,
    sampling_of,
)
from partway.container.models.text.tools import calls_of, tools_of

#: Each chunk repeats the model's name.
MAX_MODEL_CHARACTERS: Final = 256

#: With one of these beside ``messages``, a body is a chat completion request.
_TELLTALE: Final = frozenset(
    {
        *("model", "max_tokens", "max_completion_tokens", "stream", "stream_options"),
        *("logprobs", "top_logprobs", "tools", "tool_choice", "parallel_tool_calls"),
    }
)
_KNOWN: Final = OPTIONS | _TELLTALE | {"messages"}

MAX_TOP_LOGPROBS: Final = 20  # OpenAI's limit

_OLDER_TOOLS: Final = "use tools and tool_choice"
#: Members that this model cannot obey, with the reason.
_REFUSED: Final[Mapping[str, str]] = {
    "n": IMPOSSIBLE["n"],
    "functions": _OLDER_TOOLS,
    "function_call": _OLDER_TOOLS,
    "audio": "this model makes no sound; leave it out",
}
#: Values of these that ask for nothing beyond those of :func:`asks_nothing`.
_ASK_NOTHING: Final[Mapping[str, tuple[object, ...]]] = {
    "best_of": (1,),
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


def is_chat(members: Members) -> bool:
    """Whether a JSON body is a chat completion request, and not one of :func:`ask_of`."""
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
    members = members_with_effect(members, _REFUSED)
    if "messages" not in members:
        raise Refused("messages: missing")
    stream = flag_of(members, "stream")
    sampling = sampling_of(members, limit_of(members))
    tools = tools_of(members)
    if tools is not None and sampling.constraint is not None:
        raise Refused("response_format, tools: both give the answer a form; send only one of them")
    return ChatAsk(
        Ask(
            messages=_turns(members["messages"]),
            sampling=replace(sampling, top_logprobs=_top_logprobs(members)),
            tools=tools,
        ),
        stream=stream,
        include_usage=stream and usage_is_wanted(members),
        model=model_of(members),
        ignored=frozenset(members) - _KNOWN,
    )


def members_with_effect(members: Members, refused: Mapping[str, str]) -> Members:
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


def _top_logprobs(members: Members) -> int | None:
    wanted = flag_of(members, "logprobs")
    top = whole_number_of(members, "top_logprobs", 0, MAX_TOP_LOGPROBS) or 0
    if top and not wanted:
        raise Refused("top_logprobs: needs logprobs; it must be true")
    return top if wanted else None


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
    return ChatTurn(
        _ROLES[role],
        string_of(f"{name}.content", content),
        calls_of(f"{name}.tool_calls", value.get("tool_calls")) if role == "assistant" else (),
    )


def _part(name: str, value: object) -> str:
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(kind, str):
        raise Refused(f"{name}: must be an object with a type, such as text")
    if kind not in _TEXT_PARTS:
        raise Refused(f"{name}: the type is {quoted(kind)}; this model takes text alone")
    return string_of(f"{name}.{_TEXT_PARTS[kind]}", value.get(_TEXT_PARTS[kind]))
