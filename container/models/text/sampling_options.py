"""How to generate: the options of a request."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from partway.container.models.text.output_constraints import Constraint, constraint_of
from partway.container.models.text.request_members import (
    Members,
    Refused,
    is_number,
    quoted,
    string_of,
    whole_number_of,
)

#: No context is larger, and numbers of thousands of digits must not reach the engine.
MAX_NEW_TOKENS: Final = 1 << 24

#: No vocabulary is larger.
MAX_TOP_K: Final = 1 << 24

#: A seed is a signed number of 64 bits, as in OpenAI's API.
MAX_SEED: Final = (1 << 63) - 1

#: Stop strings of a request: as many as OpenAI's API takes, each as long as a marker may be. A
#: possible beginning of one is held back, so their length also delays the text.
MAX_STOPS: Final = 4
MAX_STOP_CHARACTERS: Final = 64

MAX_TEMPERATURE: Final = 2.0  # OpenAI's limit; above it there is little but noise

#: The members that say how to generate, without the limit of new tokens.
OPTIONS: Final = frozenset({"temperature", "top_p", "top_k", "seed", "stop", "response_format"})

_NO_PENALTY = "penalties cannot be set per request; leave it out"
_NO_TOOLS = "tools are taken in chat completions only"
_NO_SCORES = "log probabilities are given in chat completions only"

#: Options that other servers support, and that a request which is no chat completion cannot have.
IMPOSSIBLE: Final[Mapping[str, str]] = {
    "n": "a request gets one answer; send another request for the next",
    "logprobs": _NO_SCORES,
    "top_logprobs": _NO_SCORES,
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
}


@dataclass(frozen=True, slots=True)
class Sampling:
    """The options of a generation; None is the engine's default.

    Attributes:
        max_new_tokens: at least 1.
        temperature: from 0, which is greedy, to 2.
        top_p: over 0, up to 1.
        stop: strings that end the answer, and are not part of it.
        top_k: number of the likeliest tokens from which one is drawn, at least 1.
        seed: makes draws repeatable.
        constraint: the form that the answer must have.
        top_logprobs: number of log probabilities that are reported for each token, beside its own.
    """

    max_new_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    top_k: int | None = None
    seed: int | None = None
    constraint: Constraint | None = None
    top_logprobs: int | None = None

    def option_of_one_row(self) -> str:
        """Return the name of an option for which the request needs a row sampler of its own."""
        if self.constraint is not None:
            return self.constraint.member
        named = {"top_k": self.top_k, "seed": self.seed, "logprobs": self.top_logprobs}
        return next((name for name, value in named.items() if value is not None), "tools")


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
    temperature = members.get("temperature")
    if temperature is not None and not (
        is_number(temperature) and 0 <= temperature <= MAX_TEMPERATURE
    ):
        raise Refused(f"temperature: must be a number from 0 (greedy) to {MAX_TEMPERATURE:g}")
    top_p = members.get("top_p")
    if top_p is not None and not (is_number(top_p) and 0 < top_p <= 1):
        raise Refused("top_p: must be a number over 0 and at most 1")
    response_format = members.get("response_format")
    return Sampling(
        max_new_tokens=whole_number_of(members, max_tokens, 1, MAX_NEW_TOKENS),
        temperature=None if temperature is None else float(temperature),
        top_p=None if top_p is None else float(top_p),
        stop=_stops(members.get("stop", [])),
        top_k=_top_k(members),
        seed=whole_number_of(members, "seed", -MAX_SEED - 1, MAX_SEED),
        constraint=None if response_format is None else constraint_of(response_format),
    )


def asks_nothing(name: str, value: object) -> bool:
    """Whether a value of one of :data:`IMPOSSIBLE` has no effect: libraries send it by default."""
    # In Python True equals 1, and False equals 0.
    nothing = _ASK_NOTHING.get(name)
    return value == nothing and isinstance(value, bool) is isinstance(nothing, bool)


def _top_k(members: Members) -> int | None:
    """Return the number of tokens to draw from; None for all, as 0 and -1 mean elsewhere."""
    value = whole_number_of(members, "top_k", -1, MAX_TOP_K)
    return value if value is not None and value > 0 else None


def _stops(value: object) -> tuple[str, ...]:
    stops = value if isinstance(value, list) else [value]
    if len(stops) > MAX_STOPS:
        raise Refused(f"stop: must be at most {MAX_STOPS} strings")
    for stop in stops:
        if not 1 <= len(string_of("stop", stop)) <= MAX_STOP_CHARACTERS:
            raise Refused(f"stop: must be strings of 1 to {MAX_STOP_CHARACTERS} characters")
    return tuple(stops)
