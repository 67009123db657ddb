"""CloudWatch's filter patterns of terms; patterns of other kinds are refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from partway.gateway.apis.control.limits import MAX_PATTERN_TERMS
from partway.gateway.apis.logs.inputs import InvalidParameter

#: A term with an optional sign: in quotes, or of letters, digits and ``_``.
_TERM: Final = re.compile(r'([?-]?)(?:"((?:[^"\\]|\\.)*)"|(\w+))(?:\s+|$)')

_ESCAPED: Final = re.compile(r"\\(.)")

#: First characters of the other kinds of patterns.
_OTHERS: Final = {
    "{": "a pattern of JSON members",
    "[": "a pattern of space-delimited fields",
    "%": "a regular expression",
}


def read_pattern(text: str) -> Callable[[str], bool]:
    """Return a function that tells whether a message matches a filter pattern.

    Args:
        text: terms that a message must contain, all of them; with ``?`` before each, one of them.
            The message must not contain terms with ``-`` before them. A term that is not a word
            stands in quotes.

    Raises:
        InvalidParameter: the pattern has something other than terms, or more than
            MAX_PATTERN_TERMS.
    """
    rest = text.strip()
    if kind := _OTHERS.get(rest[:1]):
        raise _invalid(f"it is {kind}, which the gateway does not support")
    wanted: dict[str, list[str]] = {"": [], "?": [], "-": []}
    while rest:
        term = _TERM.match(rest)
        if term is None:
            raise _invalid(
                f"the term that begins with {rest[:32]!r} must be in quotes, with its sign "
                "before the quotes"
            )
        sign, quoted, word = term.groups()
        wanted[sign].append(word if quoted is None else _ESCAPED.sub(r"\1", quoted))
        rest = rest[term.end() :]
    if sum(map(len, wanted.values())) > MAX_PATTERN_TERMS:
        raise _invalid(f"it has more than {MAX_PATTERN_TERMS} terms")
    if wanted["?"] and wanted[""]:
        raise _invalid(
            "it mixes terms that have a ? with terms that have none, where AWS ignores the ?"
        )
    return lambda message: (
        all(term in message for term in wanted[""])
        and (not wanted["?"] or any(term in message for term in wanted["?"]))
        and not any(term in message for term in wanted["-"])
    )


def _invalid(why: str) -> InvalidParameter:
    return InvalidParameter(
        f"Invalid filter pattern: {why}. It must consist of terms, such as "
        'error, "out of memory", ?this ?that, -not'
    )
