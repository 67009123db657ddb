"""Prompts and replies of a language model, and the figures of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

#: Most tokens of a prompt, less than a page of the engine's cache. The beginning of a longer prompt
#: would be in the cache from the round before, and cost nothing.
_PROMPT_TOKENS = 30


class WrongReply(Exception):
    """A reply is not possible for the model."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply, as the client has seen it; times are ``time.perf_counter``'s.

    Attributes:
        at: when each part of it came.
    """

    sent: float
    at: list[float]
    text: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        return cls(**found)


def prompts(count: int) -> list[str]:
    """Make one prompt for each stream, always the same, of as many tokens as characters."""
    return [f"Stream {n:03d} asks the same as ever."[:_PROMPT_TOKENS] for n in range(count)]


def check(replies: Sequence[Reply], tokens: int, alphabet: frozenset[str]) -> None:
    """Check every character of the replies.

    Raises:
        WrongReply: a reply has the wrong length, or a character outside the alphabet.
    """
    for n, reply in enumerate(replies):
        if len(reply.text) != tokens or not alphabet.issuperset(reply.text):
            raise WrongReply(f"reply {n} is not {tokens} tokens of the alphabet: {reply.text!r}")


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of rounds of replies that were under way together; times in seconds.

    Attributes:
        rates: tokens a second of all streams, in each round.
        first: until the first part, the median and the 99th percentile.
        gap: between two parts, the 99th percentile.
        per_part: tokens in a part, on average.
    """

    rates: list[float]
    first: tuple[float, float]
    gap: float
    per_part: float

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @classmethod
    def of(cls, rounds: Sequence[Sequence[Reply]]) -> Self:
        replies = [reply for replies in rounds for reply in replies]
        gaps = np.concatenate([np.diff(reply.at) for reply in replies])
        parts = sum(len(reply.at) for reply in replies)
        return cls(
            rates=[_rate(each) for each in rounds],
            first=spread([reply.at[0] - reply.sent for reply in replies]),
            gap=spread(gaps)[1] if len(gaps) else 0.0,
            per_part=sum(len(reply.text) for reply in replies) / parts,
        )


def spread(values: Sequence[float] | np.ndarray[Any, Any]) -> tuple[float, float]:
    median, p99 = np.percentile(values, [50, 99])
    return float(median), float(p99)


def held(held: bool) -> str:
    """The verdict on a goal."""
    return "held" if held else "MISSED"


def _rate(replies: Sequence[Reply]) -> float:
    began = min(reply.sent for reply in replies)
    ended = max(reply.at[-1] for reply in replies)
    return sum(len(reply.text) for reply in replies) / (ended - began)
