"""Media types and content negotiation (RFC 9110 §8.3, §12.5.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import mimeparse

from partway.protocol.errors import quoted
from partway.protocol.formats.faults import NotAcceptable
from partway.protocol.http.content_types import media_type_of

_WEIGHT: Final = re.compile(r"0(\.\d{0,3})?|1(\.0{0,3})?", re.ASCII)  # RFC 9110 §12.4.2
_BYTES: Final = "application/octet-stream"
#: A member of a list; a comma in quotes does not end it (RFC 9110 §5.6.1).
_MEMBER: Final = re.compile(r'(?:[^,"]|"(?:\\.|[^"\\])*"?)+')


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
    """Parse one media type; invalid text becomes a type that matches nothing."""
    try:
        kind, subtype, parameters = mimeparse.parse_mime_type(text)
    except mimeparse.MimeTypeParseException:
        return MediaType(media_type_of(text), {})
    return MediaType(f"{kind}/{subtype}".lower(), parameters)


def preferred(accept: Iterable[str], offered: Sequence[str]) -> str | None:
    """Choose the media type of an answer.

    A range that names a type takes precedence over one with a wildcard (RFC 9110 §12.5.1). Among
    equal types, the one that the client names first wins, or else the one offered first.

    Args:
        accept: the ``Accept`` headers, each with any number of ranges.
        offered: media types in lower case, the preferred one first.

    Returns:
        One of the offered types, the first if the client has no preference; None if the client
        accepts none of them.
    """
    members = [each for line in accept for each in _MEMBER.findall(line)]
    ranges = [media_type(each) for each in members if each.strip()]
    if not ranges:
        return offered[0]
    wanted = [(_wish(each, ranges), each) for each in offered]
    best, name = max(wanted, key=lambda pair: pair[0])  # max() returns the first of equals
    return name if best[0] > 0 else None


def accepted(accept: Iterable[str], offered: Sequence[str]) -> str:
    """Choose as :func:`preferred` does; raises NotAcceptable if no offered type is accepted."""
    lines = list(accept)
    chosen = preferred(lines, offered)
    if chosen is None:
        raise NotAcceptable(accept_given(", ".join(lines), offered))
    return chosen


def type_given(content_type: str) -> str:
    """Name a body's type, for an error; a body without a type counts as bytes."""
    or_none = ", or none" if content_type == _BYTES else ""
    return f"Content-Type: {quoted(content_type)} was given{or_none}"


def accept_given(accept: str, offered: Iterable[str]) -> str:
    """Say, for an error, that a client accepts none of the offered types."""
    return f"Accept: {quoted(accept)} was given; it must allow one of {', '.join(offered)}"


def _wish(name: str, ranges: Sequence[MediaType]) -> tuple[float, int]:
    """Return how much a type is wanted, and the place of the range that says so; 0 is the first."""
    for pattern in (name, f"{name.partition('/')[0]}/*", "*/*"):
        for number, each in enumerate(ranges):
            if each.name == pattern:
                return _weight(each), -number
    return 0.0, 0


def _weight(each: MediaType) -> float:
    weight = each.parameters.get("q", "1")
    return float(weight) if _WEIGHT.fullmatch(weight) else 0.0
