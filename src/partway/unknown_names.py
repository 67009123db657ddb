"""Messages about unknown environment variables: each with the nearest known one."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

#: Most unknown variables that are named.
_MAX_SHOWN: Final = 10

#: Characters of a name that are shown.
_MAX_NAME: Final = 60


def describe_unknown(
    names: Collection[str], prefix: str, known: Collection[str], listed: str
) -> list[str]:
    """Describe unknown variables, a line for each of the first ten.

    Args:
        names: the unknown ones; each has the prefix.
        prefix: the common beginning, which would make any two names alike.
        known: the variables that there are.
        listed: the known ones in words, for a name that is like none of them.
    """
    lines = [_said(name, prefix, known, listed) for name in sorted(names)[:_MAX_SHOWN]]
    if len(names) > _MAX_SHOWN:
        lines.append(f"there are {len(names) - _MAX_SHOWN} more unknown variables {prefix}…")
    return lines


def _said(name: str, prefix: str, known: Collection[str], listed: str) -> str:
    shown = name[:_MAX_NAME]
    if not (shown.isascii() and shown.isprintable()):
        shown = ascii(shown)
    short = [each.removeprefix(prefix) for each in sorted(known)]
    near = get_close_matches(name[:_MAX_NAME].removeprefix(prefix), short, n=1)
    if near:
        return f"{shown}: this variable is unknown; the nearest known one is {prefix}{near[0]}"
    return f"{shown}: this variable is unknown; it must be one of {listed}"
