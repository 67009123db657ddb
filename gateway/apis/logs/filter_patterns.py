"""CloudWatch's filter patterns, as far as they are terms; all others are refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from partway.gateway.apis.control.limits import MAX_PATTERN_TERMS
from partway.gateway.apis.logs.inputs import InvalidParameter

#: A term, which has a sign before it or not: in quotes, or of letters, digits and ``_``.
_TERM: Final = re.compile(r'([?-]?)(?:"((?:[^"\\]|\\.)*)"|(\w+))(?:\s+|$)')

_ESCAPED: Final = re.compile(r"\\(.)")

#: What the other kinds of patterns begin with.
_OTHERS: Final = {
    "{": "a pattern of JSON members",
    "[": "a pattern of space-delimited fields",
    "%": "a regular expression",
}


def read_pattern(text: str) -> Callable[[str], bool]:
    """Return what says whether a message fits a filter pattern.

    Args:
        text: terms that a message must have, all of them; with ``?`` before each, one of them. It
            must not have those with ``-`` before them. What is no word stands in quotes.

    Raises:
        InvalidParameter: the pattern must be of terms, MAX_PATTERN_TERMS of them at most.
    """
    rest = text.strip()
    if kind := _OTHERS.get(rest[:1]):
        raise _invalid(f"it is {kind}, which is not known here")
    wanted: dict[str, list[str]] = {"": [], "?": [], "-": []}
    while rest:
        term = _TERM.match(rest)
        if term is None:
            raise _invalid(
                f"what begins with {rest[:32]!r} must be in quotes, with its sign before"
            )
        sign, quoted, word = term.groups()
        wanted[sign].append(word if quoted is None else _ESCAPED.sub(r"\1", quoted))
        rest = rest[term.end() :]
    if sum(map(len, wanted.values())) > MAX_PATTERN_TERMS:
        raise _invalid(f"it has more than {MAX_PATTERN_TERMS} terms")
    if wanted["?"] and wanted[""]:
        raise _invalid(
            "terms with ? before them stand beside such as must be there; AWS ignores it"
        )
    return lambda message: (
        all(term in message for term in wanted[""])
        and (not wanted["?"] or any(term in message for term in wanted["?"]))
        and not any(term in message for term in wanted["-"])
    )


def _invalid(why: str) -> InvalidParameter:
    return InvalidParameter(
        f'Invalid filter pattern: {why}. It must be of terms: error, "out of memory", ?this ?that, '
        "-not"
    )
