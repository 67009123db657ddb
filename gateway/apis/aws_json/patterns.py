"""AWS's patterns, which are Java's, as Python's."""

from __future__ import annotations

import re
from typing import Final

#: All characters of the category Z, which Python's patterns cannot name: in a class.
_SEPARATORS: Final = "\x20\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

#: Letters, separators, numbers and ``_``: Python's ``\w`` is the first, third and fourth.
_TEXT: Final = (r"\p{L}\p{Z}\p{N}_", rf"\w{_SEPARATORS}")

#: What Java's full stop matches: all that ends no line.
_ANY: Final = "[^\n\r\x85\u2028\u2029]"


def compiled(pattern: str) -> re.Pattern[str]:
    r"""Return a pattern that matches what Java's does, to be used by ``fullmatch``.

    Args:
        pattern: of AWS's; of the categories of Unicode it may name only letters, separators and
            numbers, and these together.

    Raises:
        ValueError: it uses what has no equal here.
    """
    translated = pattern.replace(*_TEXT)
    # Java's \d, \s and \w are those of ASCII; only a pattern that names categories means more.
    flags = re.NOFLAG if translated != pattern else re.ASCII
    if r"\p" in translated or "&&" in translated:
        raise ValueError(f"a pattern of AWS's has no equal here: {pattern}")
    try:
        return re.compile(_dots_replaced(translated), flags)
    except re.error as error:
        raise ValueError(f"a pattern of AWS's cannot be read: {pattern}: {error}") from error


def _dots_replaced(pattern: str) -> str:
    """A pattern whose full stops match what Java's match; those in classes are characters."""
    pieces = []
    in_class = False
    for piece in re.findall(r"\\.|.", pattern, re.DOTALL):
        if piece == "[":
            in_class = True
        elif piece == "]":
            in_class = False
        pieces.append(_ANY if piece == "." and not in_class else piece)
    return "".join(pieces)
