"""Faults on demand: what may be done to a stream, and to which streams.

All faults are the container's, as the gateway and so the client sees them: nothing here changes
what the client says. Where a fault has an ``after``, it counts *parts of the container*: its data
frames, as the container sent them, before any of them is split. ``after = 0`` is right behind the
101; ``after = 3`` lets three parts pass.

A stream has the faults of one rule at most: rules are asked in their order, and the first one that
means the stream has it. A rule counts the streams that come to it, so that two rules with
``first = 1`` mean the first stream and the second.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, ClassVar, Final, get_args, get_type_hints
from urllib.parse import parse_qsl

from partway.protocol.closing import NO_STATUS, is_legal
from partway.protocol.limits import MAX_CLOSE_REASON_BYTES, MIB, REFUSAL_BODY_BYTES

#: Seconds that a frame may be late: longer than any of the gateway's own limits on a stream.
MAX_DELAY: Final = 3600.0
#: Fragments that one part may become; more would be a flood, which is another thing to test.
MAX_FRAGMENTS: Final = 1000

_KINDS: Final = {int: "a whole number", float: "a number", str: "a string"}


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong; ``str(fault)`` says what in a line, as the log does."""

    #: What the fault is called in a file.
    name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not is_of(hints[field.name], value):
                kind = in_words(hints[field.name])
                raise TypeError(f"{self.name}: {field.name}: {kind} is wanted, not {value!r}")
        self._check_values()

    def _check_values(self) -> None:
        """See to the values, which are of their types.

        Raises:
            ValueError: one is not allowed; says what is.
        """

    def __str__(self) -> str:
        values = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))
        shown = (f"{name}={value!r}" for name, value in values if value not in ("", None))
        return " ".join((self.name, *shown))


@dataclass(frozen=True, slots=True)
class Refuse(Fault):
    """The upgrade is not granted, and the container is not asked.

    Attributes:
        status: of the answer.
        body: of the answer, as plain text.
    """

    name: ClassVar[str] = "refuse"
    status: int = 503
    body: str = "refused on demand"

    def _check_values(self) -> None:
        _check(200 <= self.status <= 599, "status", "200 to 599", self.status)
        size = len(self.body.encode("utf-8", "replace"))
        _check(size <= REFUSAL_BODY_BYTES, "body", f"at most {REFUSAL_BODY_BYTES} bytes", size)


@dataclass(frozen=True, slots=True)
class CloseEarly(Fault):
    """The container closes the stream.

    Attributes:
        code: of the Close; 1005 for a Close without a code.
        reason: of the Close.
        after: parts that pass before the Close.
    """

    name: ClassVar[str] = "close"
    code: int = 1011
    reason: str = ""
    after: int = 0

    def _check_values(self) -> None:
        allowed = "1000 to 1014 but 1004 and 1006, or 3000 to 4999"
        _check(is_legal(self.code) or self.code == NO_STATUS, "code", allowed, self.code)
        size = len(self.reason.encode("utf-8", "replace"))
        most = 0 if self.code == NO_STATUS else MAX_CLOSE_REASON_BYTES
        _check(size <= most, "reason", f"at most {most} bytes with this code", size)
        _check_count("after", self.after)


@dataclass(frozen=True, slots=True)
class Cut(Fault):
    """The container's connection ends in the middle of a frame, as when its process dies.

    Attributes:
        after: parts that pass before the one that is cut.
        at: bytes of the cut part's frame, header included, that still pass; None for half of them.
            The frame never passes whole.
    """

    name: ClassVar[str] = "cut"
    after: int = 0
    at: int | None = None

    def _check_values(self) -> None:
        _check_count("after", self.after)
        if self.at is not None:
            _check_count("at", self.at)


@dataclass(frozen=True, slots=True)
class Stall(Fault):
    """Nothing more comes of the container but Pings and Pongs: no part, no Close, no end of TCP.

    Attributes:
        after: parts that pass before the silence.
    """

    name: ClassVar[str] = "stall"
    after: int = 0

    def _check_values(self) -> None:
        _check_count("after", self.after)


@dataclass(frozen=True, slots=True)
class DropPongs(Fault):
    """No Pong of the container arrives."""

    name: ClassVar[str] = "drop_pongs"


@dataclass(frozen=True, slots=True)
class Delay(Fault):
    """Every frame of the container comes later, in the order in which they were sent.

    Attributes:
        seconds: how much later each frame comes.
    """

    name: ClassVar[str] = "delay"
    seconds: float = 1.0

    def _check_values(self) -> None:
        allowed = f"more than 0, at most {MAX_DELAY:g}"
        _check(0 < self.seconds <= MAX_DELAY, "seconds", allowed, self.seconds)


@dataclass(frozen=True, slots=True)
class Split(Fault):
    """Each part becomes several, cut by bytes: in text a cut may be inside a code point.

    Attributes:
        into: how many parts each becomes; fewer where a part has fewer bytes.
    """

    name: ClassVar[str] = "split"
    into: int = 2

    def _check_values(self) -> None:
        _check(2 <= self.into <= MAX_FRAGMENTS, "into", f"2 to {MAX_FRAGMENTS}", self.into)


@dataclass(frozen=True, slots=True)
class Empty(Fault):
    """Empty parts come before each part, and one ends each message.

    Attributes:
        count: how many empty parts come before each part.
    """

    name: ClassVar[str] = "empty"
    count: int = 1

    def _check_values(self) -> None:
        _check(1 <= self.count <= MAX_FRAGMENTS, "count", f"1 to {MAX_FRAGMENTS}", self.count)


@dataclass(frozen=True, slots=True)
class Throttle(Fault):
    """The container's bytes come slowly, frames' headers included.

    Attributes:
        bytes_per_second: the most that come in a second.
    """

    name: ClassVar[str] = "throttle"
    bytes_per_second: int = 1000

    def _check_values(self) -> None:
        allowed = f"1 to {1024 * MIB}"
        rate = self.bytes_per_second
        _check(1 <= rate <= 1024 * MIB, "bytes_per_second", allowed, rate)


#: Every fault, by the name that it has in a file.
FAULTS: Final[dict[str, type[Fault]]] = {
    fault.name: fault
    for fault in (Refuse, CloseEarly, Cut, Stall, DropPongs, Delay, Split, Empty, Throttle)
}


@dataclass(frozen=True, slots=True)
class Rule:
    """Which streams have which faults. What is None does not matter.

    Attributes:
        faults: of different kinds; Refuse goes with no other.
        endpoint: its name.
        path: at the container, such as ``v1/listen``; a slash in front changes nothing.
        query: ``key=value`` pairs joined by ``&``; the stream's query has all of them.
        first: only so many streams that come to this rule, from the first.
        every: only each so-manieth of them: 3 means the third, the sixth.
    """

    faults: tuple[Fault, ...]
    endpoint: str | None = None
    path: str | None = None
    query: str | None = None
    first: int | None = None
    every: int | None = None

    def __post_init__(self) -> None:
        kinds = [type(fault) for fault in self.faults]
        _check(bool(kinds), "a fault", "at least one of " + ", ".join(FAULTS), "none")
        _check(len(set(kinds)) == len(kinds), "faults", "one of each kind", "two of one")
        if Refuse in kinds:
            _check(len(kinds) == 1, "refuse", "alone, for no stream is left", "others beside it")
        if self.query is not None:
            paired = all("=" in pair for pair in self.query.split("&"))
            _check(paired, "query", "key=value, joined by &,", repr(self.query))
        for name in ("first", "every"):
            value = getattr(self, name)
            _check(value is None or value >= 1, name, "1 or more", value)

    def means(self, endpoint: str, target: str) -> bool:
        """Whether a stream is one of those that this rule counts.

        Args:
            endpoint: the name of the stream's endpoint.
            target: path and query asked of the container.
        """
        path, _, query = target.partition("?")
        return (
            (self.endpoint is None or self.endpoint == endpoint)
            and (self.path is None or self.path.lstrip("/") == path.lstrip("/"))
            and (self.query is None or _pairs(self.query) <= _pairs(query))
        )


@dataclass(slots=True)
class Met:
    """How often a rule was met.

    Attributes:
        rule: the rule.
        counted: streams that the rule means, apart from its ``first`` and ``every``.
        applied: those of them that got the rule's faults.
    """

    rule: Rule
    counted: int = 0
    applied: int = 0

    def takes(self) -> bool:
        """Count one more stream that the rule means; returns whether it gets the faults."""
        self.counted += 1
        first, every = self.rule.first or math.inf, self.rule.every or 1
        due = self.counted <= first and self.counted % every == 0
        self.applied += due
        return due


class Rules:
    """The rules in force, shared by all endpoints, and how often each was met.

    Attributes:
        met: one count for each rule, in the order of the rules.
    """

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.met: tuple[Met, ...] = ()
        self.replace(rules)

    def replace(self, rules: Iterable[Rule]) -> None:
        """Put other rules in place of these, for streams that open later; counts begin again."""
        self.met = tuple(Met(rule) for rule in rules)

    def add(self, rule: Rule) -> Met:
        """Add a rule behind the others, whose counts go on; returns how often it was met."""
        met = Met(rule)
        self.met = (*self.met, met)
        return met

    def faults_for(self, endpoint: str, target: str) -> tuple[Fault, ...]:
        """The faults of a stream that opens now; to be called once a stream, since it counts."""
        for met in self.met:
            if met.rule.means(endpoint, target) and met.takes():
                return met.rule.faults
        return ()


def is_of(hint: Any, value: object) -> bool:
    """Whether a value is of a member's type; a whole number is a number too, and true is none."""
    if isinstance(hint, UnionType):
        return any(is_of(each, value) for each in get_args(hint))
    fits = isinstance(value, (int, float) if hint is float else hint)
    return fits and (hint is bool or not isinstance(value, bool))


def in_words(hint: Any) -> str:
    """A member's type; None, where it is allowed too, goes without saying."""
    if isinstance(hint, UnionType):
        hint = next(each for each in get_args(hint) if each is not NoneType)
    return _KINDS[hint]


def _pairs(query: str) -> set[tuple[str, str]]:
    return set(parse_qsl(query, keep_blank_values=True))


def _check(right: bool, name: str, allowed: str, value: object) -> None:
    if not right:
        raise ValueError(f"{name}: {allowed} is wanted, not {value}")


def _check_count(name: str, value: int) -> None:
    _check(value >= 0, name, "0 or more", value)
