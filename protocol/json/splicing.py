"""Splitting and joining valid JSON texts; moved parts keep their bytes.

msgspec finds the ends of values without creating objects. It refuses half of a surrogate pair,
which RFC 8259 §8.2 allows; such a text is read by Python's own library. A part of a text keeps the
whole text in memory.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    import msgspec

    #: A text, as bytes or as a slice of other bytes.
    Text: TypeAlias = bytes | msgspec.Raw

#: Rows joined at a time: each is an object of fifty bytes besides its text.
_BLOCK: Final = 256

_KINDS: Final = {dict: "an object", str: "a string", bool: "a boolean", type(None): "null"}


def members_of(text: Text) -> Mapping[str, Text]:
    """Return the texts of an object's members, by name. No name may be repeated."""
    found: dict[str, Text] | None = _found(text, "members")
    return dict(_members(bytes(text).decode())) if found is None else found


def elements_of(text: Text) -> Sequence[Text]:
    found: list[Text] | None = _found(text, "elements")
    return list(_elements(bytes(text).decode())) if found is None else found


def rows_of(seams: Sequence[bytes], columns: Sequence[Sequence[Text]]) -> Iterator[bytes]:
    """Yield rows made of columns, in blocks, with commas between rows.

    Args:
        seams: the text of each row before its first part, between two parts, and after the last
            part.
        columns: the parts of the rows; all columns have the same length, at least one.
    """
    first, *between, last = seams
    before = [last + b", " + first, *between]
    width, count = 2 * len(columns), len(columns[0])
    for begin in range(0, count, _BLOCK):
        several = min(_BLOCK, count - begin)
        pieces: list[Any] = [b""] * (width * several)
        for number, column in enumerate(columns):
            pieces[2 * number :: width] = [before[number]] * several
            pieces[2 * number + 1 :: width] = column[begin : begin + several]
        pieces[0] = first
        yield b"".join((*pieces, last))


def kind_of(value: object) -> str:
    if isinstance(value, list):
        return "an array was given" if value else "an empty array was given"
    return f"{_KINDS.get(type(value), 'a number')} was given"


def _found(text: Text, what: str) -> Any:
    """Return the parts of a text; None if it has half of a surrogate pair."""
    from msgspec import DecodeError  # it takes 10 ms

    try:
        return _reader(what).decode(text)
    except DecodeError:
        return None


@functools.cache
def _reader(what: str) -> msgspec.json.Decoder[Any]:
    from msgspec import Raw
    from msgspec.json import Decoder

    return Decoder(dict[str, Raw]) if what == "members" else Decoder(list[Raw])


# --- By Python's own library ---------------------------------------------------------------------

_SPACE: Final = re.compile(r"[ \t\r\n]*")

#: Finds the end of a value. Numbers are only measured.
_VALUES: Final = json.JSONDecoder(parse_int=len, parse_float=len)


def _members(text: str) -> Iterator[tuple[str, bytes]]:
    at = _behind_space(text, text.index("{") + 1)
    while text[at] != "}":
        name, at = _VALUES.raw_decode(text, at)
        begin = _behind_space(text, text.index(":", at) + 1)
        _, end = _VALUES.raw_decode(text, begin)
        yield name, text[begin:end].encode()
        at = _behind_space(text, end)
        if text[at] == ",":
            at = _behind_space(text, at + 1)


def _elements(text: str) -> Iterator[bytes]:
    at = _behind_space(text, text.index("[") + 1)
    while text[at] != "]":
        _, end = _VALUES.raw_decode(text, at)
        yield text[at:end].encode()
        at = _behind_space(text, end)
        if text[at] == ",":
            at = _behind_space(text, at + 1)


def _behind_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None, "it fits nothing too"
    return found.end()
