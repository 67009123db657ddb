"""Where values are in a text of JSON that is valid: what is moved or replaced stays as it came."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

#: Elements that are joined at a time.
_AT_A_TIME: Final = 256

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_KINDS: Final = {dict: "an object", str: "a string", bool: "a boolean", type(None): "null"}

#: Finds where a value ends. Numbers are looked at by their length alone.
_VALUES: Final = json.JSONDecoder(parse_int=len, parse_float=len)


def members_of(text: str) -> Iterator[tuple[str, int, int]]:
    """The members of an object, names and where their values begin and end; it is valid JSON."""
    at = _behind_space(text, text.index("{") + 1)
    while text[at] != "}":
        name, at = _VALUES.raw_decode(text, at)
        begin = _behind_space(text, text.index(":", at) + 1)
        _, end = _VALUES.raw_decode(text, begin)
        yield name, begin, end
        at = _behind_space(text, end)
        if text[at] == ",":
            at = _behind_space(text, at + 1)


def place_of(text: str, wanted: str) -> tuple[int, int]:
    """Where the value of a member of an object begins and ends.

    Args:
        text: the object, which is valid JSON and has the member.
        wanted: the member's name.
    """
    return next((begin, end) for name, begin, end in members_of(text) if name == wanted)


def elements_of(text: str, begin: int) -> Iterator[str]:
    """The texts of an array's elements; it is valid JSON, and has one at least."""
    while text[begin] != "]":
        begin = _behind_space(text, begin + 1)
        _, end = _VALUES.raw_decode(text, begin)
        yield text[begin:end]
        begin = _behind_space(text, end)


def array_of(elements: Iterable[str]) -> str:
    """An array's text, of its elements', joined some at a time: each has fifty bytes besides."""
    left = iter(elements)
    return f"[{', '.join(iter(lambda: ', '.join(islice(left, _AT_A_TIME)), ''))}]"


def kind_of(value: object) -> str:
    """What kind of value was given, as a message has it."""
    if isinstance(value, list):
        return "an array was given" if value else "an empty array was given"
    return f"{_KINDS.get(type(value), 'a number')} was given"


def _behind_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None, "it fits nothing too"
    return found.end()
