"""Media types: what a request is in, and what its answer may be in (RFC 9110 §8.3, §12.5.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_WEIGHT = re.compile(r"0(\.\d{0,3})?|1(\.0{0,3})?", re.ASCII)  # RFC 9110 §12.4.2


@dataclass(frozen=True, slots=True)
class MediaType:
    """A media type, or a range of them.

    Attributes:
        name: ``type/subtype``, in lower case.
        parameters: their names in lower case, values as they came, without quotes.
    """

    name: str
    parameters: Mapping[str, str]


def media_type(text: str) -> MediaType:
    """Read one media type; other text becomes a type that nobody knows."""
    name, *rest = text.split(";")
    parameters = {}
    for each in rest:
        key, _, value = each.partition("=")
        parameters[key.strip().lower()] = value.strip().strip('"')
    return MediaType(name.strip().lower(), parameters)


def preferred(accept: Iterable[str], offered: Sequence[str]) -> str | None:
    """What to answer in.

    A range that names a type goes before one with a wildcard (RFC 9110 §12.5.1). Of the types that
    are wanted equally, the one that the client names first is taken, or else the one offered first.

    Args:
        accept: the ``Accept`` headers, each with any number of ranges.
        offered: media types in lower case, the preferred one first.

    Returns:
        One of the offered types, the first where the client does not say; None if the client wants
        another.
    """
    ranges = [media_type(each) for line in accept for each in line.split(",") if each.strip()]
    if not ranges:
        return offered[0]
    wanted = [(_wish(each, ranges), each) for each in offered]
    best, name = max(wanted, key=lambda pair: pair[0])  # the first one of equals
    return name if best[0] > 0 else None


def _wish(name: str, ranges: Sequence[MediaType]) -> tuple[float, int]:
    """How much a type is wanted, and, the nearer to 0 the earlier, which range says so."""
    for pattern in (name, f"{name.partition('/')[0]}/*", "*/*"):
        for number, each in enumerate(ranges):
            if each.name == pattern:
                return _weight(each), -number
    return 0.0, 0


def _weight(each: MediaType) -> float:
    weight = each.parameters.get("q", "1")
    return float(weight) if _WEIGHT.fullmatch(weight) else 0.0
