"""Requests for generated text: plain text, or JSON with options.

Unsupported options are refused by name. A client that asks for a seed, and gets an answer without
it, would expect the same result again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NoReturn, TypeGuard, cast

from partway.container.errors import ModelError
from partway.protocol.limits import KIB
from partway.protocol.websocket.close_codes import INVALID_DATA, POLICY_VIOLATION, TOO_BIG

Role = Literal["system", "user", "assistant", "tool"]
#: A JSON object's members.
Members = Mapping[str, object]

#: Most bytes of one request's text, JSON included. 256 KiB of English are some 64 thousand tokens,
#: more than most contexts. Tokenizing them takes a tenth of a second.
MAX_TEXT_BYTES: Final = 256 * KIB

#: Messages of one conversation. A chat template is a program that takes some 10 µs per message: a
#: hundredth of a second in all.
MAX_TURNS: Final = 1024

#: No context is larger, and numbers of thousands of digits must not reach the engine.
MAX_NEW_TOKENS: Final = 1 << 24

#: Stop strings of a request: as many as OpenAI's API takes, each as long as a marker may be. A
#: possible beginning of one is held back, so their length also delays the text.
MAX_STOPS: Final = 4
MAX_STOP_CHARACTERS: Final = 64

MAX_TEMPERATURE: Final = 2.0  # OpenAI's limit; above it there is little but noise

_ROLES: Final = ("system", "user", "assistant")
_QUOTED: Final = 40  # most characters of a client's input that a reason quotes
_KNOWN: Final = frozenset(
    {"messages", "prompt", "max_new_tokens", "temperature", "top_p", "stop", "queue"}
)
_NO_PENALTY = "penalties cannot be set per request; leave it out"
_NO_TOOLS = "this model makes no tool calls; describe the tools in a system message"
_NO_PROBABILITIES = "the engine reports no probabilities; leave it out"
_IN_CHAT_ONLY = "it is allowed only in the body of a chat completion"

#: Options that other servers support and this engine does not, with the reason.
IMPOSSIBLE: Final[Mapping[str, str]] = {
    "seed": "concurrent requests share one random generator; leave it out",
    "n": "a request gets one answer; send another request for the next",
    "logprobs": _NO_PROBABILITIES,
    "top_logprobs": _NO_PROBABILITIES,
    "top_k": "it cannot be set per request; use top_p",
    "min_p": "it cannot be set per request; use top_p",
    "frequency_penalty": _NO_PENALTY,
    "presence_penalty": _NO_PENALTY,
    "repetition_penalty": _NO_PENALTY,
    "logit_bias": "token weights cannot be set per request; leave it out",
    "tools": _NO_TOOLS,
    "tool_choice": _NO_TOOLS,
    "parallel_tool_calls": _NO_TOOLS,
    "functions": _NO_TOOLS,
    "function_call": _NO_TOOLS,
    "response_format": "this model cannot constrain its output; ask for the format in the prompt",
}

#: Values of these options that have no effect: libraries send them by default.
_ASK_NOTHING: Final[Mapping[str, object]] = {
    "n": 1,
    "logprobs": False,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "repetition_penalty": 1,
    "logit_bias": {},
    "tools": [],
    "functions": [],
    "response_format": {"type": "text"},
}

#: Names that belong in another kind of request, with a hint.
_ELSEWHERE: Final[Mapping[str, str]] = {
    "max_tokens": "use max_new_tokens",
    "max_completion_tokens": "use max_new_tokens",
    "model": _IN_CHAT_ONLY,
    "user": _IN_CHAT_ONLY,
    "stream": _IN_CHAT_ONLY,
    "stream_options": _IN_CHAT_ONLY,
}


class Refused(ModelError):
    """A request that is refused: Close 1008, or 400, by default."""

    def __init__(self, reason: str, *, code: int = POLICY_VIOLATION, status: int = 400) -> None:
        super().__init__(reason, code=code, status=status)


@dataclass(frozen=True, slots=True)
class ChatTurn:
    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """The options of a generation; None is the engine's default.

    Attributes:
        max_new_tokens: at least 1.
        temperature: from 0, which is greedy, to 2.
        top_p: over 0, up to 1.
        stop: strings that end the answer, and are not part of it.
    """

    max_new_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """A parsed request, with exactly one of ``messages`` and ``prompt``.

    Attributes:
        messages: the whole conversation, instead of the remembered one; the last turn is a user's.
        prompt: the next user's turn.
        sampling: how to generate.
        queue: whether to wait for the current answer instead of interrupting it.
        raw: whether the model continues the prompt as it is, without its chat template.

    Raises:
        ValueError: both of ``messages`` and ``prompt`` are given, or neither.
    """

    messages: tuple[ChatTurn, ...] | None = None
    prompt: str | None = None
    sampling: Sampling = field(default_factory=Sampling)
    queue: bool = False
    raw: bool = False

    def __post_init__(self) -> None:
        if (self.messages is None) is (self.prompt is None):
            raise ValueError("an ask must have either messages or a prompt")


def ask_of(message: str | bytes | Members) -> Ask:
    """Parse a stream's message, or a body that is not a chat completion.

    Args:
        message: text; with ``{`` as its first character after white space it is JSON, otherwise a
            prompt. Or the members from :func:`members_of`.

    Raises:
        Refused: the message is not UTF-8 or not JSON (Close 1007), too large (1009, or 413), or
            asks for something unsupported (1008).
    """
    if isinstance(message, str | bytes):
        text = text_of(message)
        if not _is_json(text):
            return Ask(prompt=_not_empty("the prompt", text))
        message = _load(text)
    members = known_members(message, _KNOWN, _ELSEWHERE)
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


def too_much_text() -> Refused:
    """Make the refusal of text longer than :data:`MAX_TEXT_BYTES`."""
    reason = f"too much text: it must have at most {MAX_TEXT_BYTES} bytes"
    return Refused(reason, code=TOO_BIG, status=413)


def text_of(message: str | bytes) -> str:
    """Decode a message to text of bounded length.

    Raises:
        Refused: the message is too large, or not UTF-8.
    """
    size = len(message)
    if isinstance(message, str) and size <= MAX_TEXT_BYTES and not message.isascii():
        size = len(message.encode("utf-8", "surrogatepass"))
    if size > MAX_TEXT_BYTES:
        raise too_much_text()
    if isinstance(message, str):
        return string_of("the message", message)
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        reason = f"the message is not UTF-8: byte {error.start} is invalid"
        raise Refused(reason, code=INVALID_DATA) from None


def members_of(message: str | bytes) -> Members | None:
    """Return the members of a message that is JSON; None if it is plain text.

    Raises:
        Refused: the message is too large, not UTF-8, or invalid JSON.
    """
    text = text_of(message)
    return _load(text) if _is_json(text) else None


def known_members(members: Members, known: Collection[str], hints: Mapping[str, str]) -> Members:
    """Return the members that are not null: null means absent.

    Raises:
        Refused: a member has an unknown name, or is one of :data:`IMPOSSIBLE` with an effective
            value.
    """
    said: dict[str, object] = {}
    for name, value in members.items():
        if name in known:
            if value is not None:
                said[name] = value
        elif name in IMPOSSIBLE:
            if value is not None and not asks_nothing(name, value):
                raise Refused(f"{name}: {IMPOSSIBLE[name]}")
        elif name in hints:
            raise Refused(f"{name}: {hints[name]}")
        else:
            raise Refused(f"{quoted(name)}: not a parameter of this model")
    return said


def sampling_of(members: Members, max_tokens: str) -> Sampling:
    """Parse the options of the generation.

    Args:
        members: the request's members.
        max_tokens: the request's name for the limit of new tokens.

    Raises:
        Refused: a value has the wrong type, or is out of range.
    """
    tokens = members.get(max_tokens)
    if tokens is not None:
        if not isinstance(tokens, int) or isinstance(tokens, bool):
            raise Refused(f"{max_tokens}: must be a whole number")
        if not 1 <= tokens <= MAX_NEW_TOKENS:
            raise Refused(f"{max_tokens}: must be from 1 to {MAX_NEW_TOKENS}")
    temperature = members.get("temperature")
    if temperature is not None and not (
        _is_number(temperature) and 0 <= temperature <= MAX_TEMPERATURE
    ):
        raise Refused(f"temperature: must be a number from 0 (greedy) to {MAX_TEMPERATURE:g}")
    top_p = members.get("top_p")
    if top_p is not None and not (_is_number(top_p) and 0 < top_p <= 1):
        raise Refused("top_p: must be a number over 0 and at most 1")
    return Sampling(
        max_new_tokens=tokens,
        temperature=None if temperature is None else float(temperature),
        top_p=None if top_p is None else float(top_p),
        stop=_stops(members.get("stop", [])),
    )


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


def flag_of(members: Members, name: str, *, default: bool = False) -> bool:
    """Return the value of a switch; an absent one has the default.

    Raises:
        Refused: the switch is neither true nor false.
    """
    value = members.get(name, default)
    if not isinstance(value, bool):
        raise Refused(f"{name}: must be true or false")
    return value


def string_of(name: str, value: object) -> str:
    """Check that a value is a string with a UTF-8 form.

    Raises:
        Refused: the value is not a string, or has half of a surrogate pair, which JSON can express.
    """
    if not isinstance(value, str):
        raise Refused(f"{name}: must be a string")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Refused(
                f"{name}: has half of a surrogate pair; it must be valid Unicode text",
                code=INVALID_DATA,
            ) from None
    return value


def quoted(text: str) -> str:
    """Shorten and escape a client's input, for a reason."""
    shown = ascii(text[:_QUOTED])
    return shown if len(shown) <= _QUOTED else f"{shown[: _QUOTED - 1]}…"


def _is_json(text: str) -> bool:
    return text.lstrip().startswith("{")


def _load(text: str) -> Members:
    """Parse JSON that begins with ``{``, strictly and with bounded depth."""
    try:
        value = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        reason = f"not JSON: {error.msg.removesuffix(' at')} at character {error.pos}"
        raise Refused(reason, code=INVALID_DATA) from None
    except RecursionError:
        raise Refused("the JSON is nested too deep", code=INVALID_DATA) from None
    except ValueError:  # Python parses whole numbers of up to 4300 digits
        raise Refused("the JSON has a number that is too long", code=INVALID_DATA) from None
    return cast("Members", value)


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for name, value in pairs:
        if name in members:
            # Parsers differ in which of two equal names they take.
            raise Refused(f"{quoted(name)}: occurs twice; it must occur once", code=INVALID_DATA)
        members[name] = value
    return members


def _no_constant(name: str) -> NoReturn:
    raise Refused(f"not JSON: {name} is not a number in JSON", code=INVALID_DATA)


def asks_nothing(name: str, value: object) -> bool:
    """Whether a value of one of :data:`IMPOSSIBLE` has no effect: libraries send it by default."""
    # In Python True equals 1, and False equals 0.
    nothing = _ASK_NOTHING.get(name)
    return value == nothing and isinstance(value, bool) is isinstance(nothing, bool)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _stops(value: object) -> tuple[str, ...]:
    stops = value if isinstance(value, list) else [value]
    if len(stops) > MAX_STOPS:
        raise Refused(f"stop: must be at most {MAX_STOPS} strings")
    for stop in stops:
        if not 1 <= len(string_of("stop", stop)) <= MAX_STOP_CHARACTERS:
            raise Refused(f"stop: must be strings of 1 to {MAX_STOP_CHARACTERS} characters")
    return tuple(stops)


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
