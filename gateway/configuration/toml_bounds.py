"""Bounds on a TOML file, checked before it is parsed, since it may come from an untrusted user.

``tomllib`` keeps every beginning of a dotted key: 100 KB of ``a.a.a…=1`` cost it 9.8 GB and 52 s.
Its pattern for numbers keeps 120 bytes for each digit, and each table takes a kilobyte. Within
these bounds a file of 8 MiB costs 100 MB or 5 s. No file written by hand exceeds them.
"""

from __future__ import annotations

import re
from typing import Final

#: Parts of one key. The deepest key of these files has four: ``rule.close.code`` in a table.
MAX_KEY_PARTS: Final = 16

#: Arrays and inline tables within one another.
MAX_DEPTH: Final = 32

#: Marks outside of strings and comments: each key, value, table, array and line has one or a few.
#: Thirty thousand endpoints have fewer.
MAX_MARKS: Final = 250_000

#: Characters between two marks: a bare key, a number, a date, white space.
MAX_STRETCH: Final = 8192

#: The group matches a whole string, as most are, in one step instead of three.
_MARKS: Final = re.compile(
    r"""
    \"\"\" | '''
    | ( "[^"\\\n]*" | '[^'\n]*' )
    | ["'\#\n.,=\[\]{}]
    """,
    re.VERBOSE,
)

#: Where a string may end, by its beginning, and the marks to skip with the next character.
_STRING_STOPS: Final = {
    '"': re.compile(r'["\\\n]'),
    "'": re.compile(r"['\n]"),
    '"""': re.compile(r'"""|\\'),
    "'''": re.compile(r"'''"),
}


class TooMuch(ValueError):
    """A file exceeds a bound; the message has the line, the excess, and the bound."""


def check_bounds(text: str) -> None:
    """Verify in one pass that a file can be parsed at little cost.

    Invalid TOML passes: the parser stops there, and reports it. Up to that point, strings and
    comments end here where they end for the parser.

    Raises:
        TooMuch: a bound is exceeded; the message quotes nothing of the file.
    """
    at = depth = parts = marks = 0
    while (mark := _MARKS.search(text, at)) is not None:
        begin = mark.start()
        if begin - at > MAX_STRETCH:
            break
        at = mark.end()
        if mark.lastindex:
            continue
        kind = mark[0]
        if kind in _STRING_STOPS:
            end = _string_end(text, at, kind)
            if end is None:
                return
            at = end
        elif kind == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        else:
            marks += 1
            parts = parts + 1 if kind == "." else 1
            depth += (kind in "[{") - (kind in "]}")
            if marks > MAX_MARKS:
                raise _too_much(text, begin, MAX_MARKS, "keys, values, tables and lines")
            if parts > MAX_KEY_PARTS:
                raise _too_much(text, begin, MAX_KEY_PARTS, "parts in a dotted key")
            if depth > MAX_DEPTH:
                raise _too_much(text, begin, MAX_DEPTH, "arrays or tables within one another")
    if (len(text) if mark is None else mark.start()) - at > MAX_STRETCH:
        raise _too_much(text, at, MAX_STRETCH, "characters of a key, a number or white space")


def _too_much(text: str, at: int, most: int, what: str) -> TooMuch:
    line = text.count("\n", 0, at) + 1
    return TooMuch(f"line {line}: there are more than {most} {what}; there must be at most {most}")


def _string_end(text: str, at: int, kind: str) -> int | None:
    """Return the end of a string whose opening mark ends at ``at``; None if it is invalid."""
    stops = _STRING_STOPS[kind]
    while (stop := stops.search(text, at)) is not None:
        at = stop.end()
        if stop[0] == "\\":
            at += 1  # an escaped character ends no string
        elif stop[0] == "\n":
            return None
        elif len(kind) == 1:
            return at
        else:  # up to two quotation marks right before the end belong to the string
            return at + len(text[at : at + 2]) - len(text[at : at + 2].lstrip(kind[0]))
    return None
