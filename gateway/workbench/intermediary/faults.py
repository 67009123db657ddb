"""Faults on demand, and the rules that choose the streams they are applied to.

All faults are the container's, as the gateway and so the client sees them: the client's own bytes
never change. ``after`` counts *parts of the container*: its data frames, before any of them is
split. ``after = 0`` is right behind the 101; ``after = 3`` lets three parts pass.

A stream has the faults of one rule at most: the first rule that takes the stream. A rule counts the
streams that reach it, so that two rules with ``first = 1`` take the first stream and the second.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Final
from urllib.parse import parse_qsl

from partway.gateway.configuration.expected import (
    keys_of,
    number,
    taken_apart,
    text,
    whole,
    whole_of,
)
from partway.gateway.configuration.messages import SettingsError, TableRefused, given
from partway.gateway.configuration.reader import checked
from partway.protocol.limits import MAX_CLOSE_REASON_BYTES, MIB, REFUSAL_BODY_BYTES
from partway.protocol.websocket.close_codes import NO_STATUS, is_legal

#: Most seconds that a frame may be late: longer than any limit of the gateway on a stream.
MAX_DELAY: Final = 3600.0
#: Most fragments of one part; more would be a flood, which is another thing to test.
MAX_FRAGMENTS: Final = 1000

_Parts = Annotated[int, whole(0, unit="parts")]


def _bytes_of(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


_Body = Annotated[
    str,
    text(
        f"a string of at most {REFUSAL_BODY_BYTES} bytes",
        lambda body: _bytes_of(body) <= REFUSAL_BODY_BYTES,
    ),
]
_Reason = Annotated[
    str,
    text(
        f"a string of at most {MAX_CLOSE_REASON_BYTES} bytes",
        lambda reason: _bytes_of(reason) <= MAX_CLOSE_REASON_BYTES,
    ),
]
_Code = Annotated[
    int,
    whole_of(
        "a whole number from 1000 to 1014 except 1004 and 1006, or from 3000 to 4999",
        lambda code: is_legal(code) or code == NO_STATUS,
    ),
]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a stream; ``str(fault)`` describes it in one line, as the log does."""

    #: The fault's name in a file.
    name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        _check(self, keys_of(type(self)) or {})

    def __str__(self) -> str:
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        shown = (f"{name}={value!r}" for name, value in values if value not in ("", None))
        return " ".join((self.name, *shown))


@dataclass(frozen=True, slots=True)
class Refuse(Fault):
    """The upgrade is not granted, and the container is not asked.

    Attributes:
        body: the body of the answer, as plain text.
    """

    name: ClassVar[str] = "refuse"
    status: Annotated[int, whole(200, 599)] = 503
    body: _Body = "refused on demand"


@dataclass(frozen=True, slots=True)
class CloseEarly(Fault):
    """The container closes the stream.

    Attributes:
        code: the code in the Close frame; 1005 for a Close without a code.
        after: number of parts that reach the client before the Close.
    """

    name: ClassVar[str] = "close"
    code: _Code = 1011
    reason: _Reason = ""
    after: _Parts = 0

    def __post_init__(self) -> None:
        # dataclass(slots=True) makes the class anew, which super() without arguments does not see.
        super(CloseEarly, self).__post_init__()
        if self.code == NO_STATUS and self.reason:
            fault = f"{given(self.reason)}; it must be empty with the code {NO_STATUS}"
            raise TableRefused(fault, "reason")


@dataclass(frozen=True, slots=True)
class Cut(Fault):
    """The container's connection ends in the middle of a frame, as when its process dies.

    Attributes:
        after: parts that pass before the one that is cut.
        at: bytes of the cut part's frame, header included, that still pass; None for half of them.
            The frame never passes whole.
    """

    name: ClassVar[str] = "cut"
    after: _Parts = 0
    at: Annotated[int, whole(0, unit="bytes")] | None = None


@dataclass(frozen=True, slots=True)
class Stall(Fault):
    """The container goes silent: Pings and Pongs pass, but no part, no Close and no end of TCP.

    Attributes:
        after: parts that pass before the silence.
    """

    name: ClassVar[str] = "stall"
    after: _Parts = 0


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
    seconds: Annotated[float, number(above=0, most=MAX_DELAY, unit="seconds")] = 1.0


@dataclass(frozen=True, slots=True)
class Split(Fault):
    """Each part becomes several, cut by bytes: in text a cut may be inside a code point.

    Attributes:
        into: how many parts each becomes; fewer where a part has fewer bytes.
    """

    name: ClassVar[str] = "split"
    into: Annotated[int, whole(2, MAX_FRAGMENTS, "parts")] = 2


@dataclass(frozen=True, slots=True)
class Empty(Fault):
    """Empty parts come before each part, and one ends each message.

    Attributes:
        count: how many empty parts come before each part.
    """

    name: ClassVar[str] = "empty"
    count: Annotated[int, whole(1, MAX_FRAGMENTS, "parts")] = 1


@dataclass(frozen=True, slots=True)
class Throttle(Fault):
    """The container's bytes come slowly, frames' headers included.

    Attributes:
        bytes_per_second: the most that come in a second.
    """

    name: ClassVar[str] = "throttle"
    bytes_per_second: Annotated[int, whole(1, 1024 * MIB, "bytes")] = 1000


#: Every fault, by its name in a file.
FAULTS: Final[dict[str, type[Fault]]] = {
    fault.name: fault
    for fault in (Refuse, CloseEarly, Cut, Stall, DropPongs, Delay, Split, Empty, Throttle)
}


def _is_paired(query: str) -> bool:
    return all("=" in pair for pair in query.split("&"))


_Streams = Annotated[int, whole(1, unit="streams")]


@dataclass(frozen=True, slots=True)
class Rule:
    """The faults of certain streams. A selector that is None does not matter.

    Attributes:
        faults: faults of different kinds; a Refuse must be the only one.
        endpoint: its name.
        path: the path at the container, such as ``v1/listen``; a slash in front changes nothing.
        query: ``key=value`` pairs joined by ``&``; the stream's query has all of them.
        first: only this many of the streams that reach the rule, from the first.
        every: only every n-th of the streams: 3 means the third, the sixth, and so on.
    """

    faults: tuple[Fault, ...]
    endpoint: str | None = None
    path: str | None = None
    query: Annotated[str, text("pairs of key=value joined by &", _is_paired)] | None = None
    first: _Streams | None = None
    every: _Streams | None = None

    def __post_init__(self) -> None:
        _check(self, SELECTORS)
        kinds = [type(fault) for fault in self.faults]
        if not kinds:
            raise TableRefused(
                f"no fault was given; it must have one or more of {', '.join(FAULTS)}"
            )
        if len(set(kinds)) < len(kinds):
            raise TableRefused("two faults of one kind were given; each must be of another kind")
        if Refuse in kinds and len(kinds) > 1:
            raise TableRefused(
                "other faults were given; it must be alone, since a refused stream has no "
                "other faults",
                "refuse",
            )

    def means(self, endpoint: str, target: str) -> bool:
        """Whether a stream, whose ``target`` is path and query, fits endpoint, path and query."""
        path, _, query = target.partition("?")
        return (
            (self.endpoint is None or self.endpoint == endpoint)
            and (self.path is None or self.path.lstrip("/") == path.lstrip("/"))
            and (self.query is None or _pairs(self.query) <= _pairs(query))
        )


#: The members of a rule that choose streams, and the allowed values of each.
SELECTORS: Final = {key: hint for key, hint in (keys_of(Rule) or {}).items() if key != "faults"}


@dataclass(slots=True)
class Met:
    """How often a rule was met.

    Attributes:
        counted: streams that fit the rule, apart from its ``first`` and ``every``.
        applied: the counted streams that got the rule's faults.
    """

    rule: Rule
    counted: int = 0
    applied: int = 0

    def takes(self) -> bool:
        """Count one more stream that fits the rule; return whether it gets the faults."""
        self.counted += 1
        first, every = self.rule.first or math.inf, self.rule.every or 1
        due = self.counted <= first and self.counted % every == 0
        self.applied += due
        return due


class Rules:
    """The rules in force, shared by all endpoints; ``met`` has a count for each, in their order."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.met: tuple[Met, ...] = ()
        self.replace(rules)

    def replace(self, rules: Iterable[Rule]) -> None:
        """Replace the rules for streams that open later; counts begin again."""
        self.met = tuple(Met(rule) for rule in rules)

    def add(self, rule: Rule) -> Met:
        """Add a rule behind the others, whose counts go on; return the rule's count."""
        met = Met(rule)
        self.met = (*self.met, met)
        return met

    def faults_for(self, endpoint: str, target: str) -> tuple[Fault, ...]:
        """Choose the faults of a stream that opens now. Call it once a stream, since it counts."""
        for met in self.met:
            if met.rule.means(endpoint, target) and met.takes():
                return met.rule.faults
        return ()


def _pairs(query: str) -> set[tuple[str, str]]:
    return set(parse_qsl(query, keep_blank_values=True))


def _check(value: object, keys: Mapping[str, Any]) -> None:
    """Check values made in Python like values read from a file.

    Raises:
        TypeError: a value has the wrong type.
        ValueError: a value is not allowed.
    """
    for key, hint in keys.items():
        found = getattr(value, key)
        try:
            checked(hint, found, key)
        except SettingsError as error:
            kind, _ = taken_apart(hint)
            kinds = (int, float) if kind is float else kind
            fits = isinstance(found, kinds) and not isinstance(found, bool)
            raise (ValueError if fits else TypeError)(str(error)) from None
