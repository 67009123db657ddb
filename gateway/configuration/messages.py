"""Messages about wrong settings: where, what was found, and what it must be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time
from difflib import get_close_matches
from typing import Final, TypeAlias

from partway.gateway.plain_text import cut

#: Where a value is: the keys that lead to it, and indexes in arrays, from 0.
Place: TypeAlias = tuple[str | int, ...]

#: Faults that are shown of one file; the rest are counted.
_MAX_SHOWN: Final = 10
#: Characters of a value and of a key that are shown.
_MAX_VALUE: Final = 60
_MAX_KEY: Final = 40
#: Bits of a whole number that is shown: TOML does not limit its digits.
_MAX_BITS: Final = 128

#: A key that TOML takes without quotes.
_BARE_KEY: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{_MAX_KEY}}}")
#: A key that cannot be a secret.
_HARMLESS_KEY: Final = re.compile(r"[a-z_]{1,24}")


class SettingsError(ValueError):
    """A file of settings, a variable or a flag is invalid.

    The message has a line for each fault: where it is, what was found, and what it must be.
    """


class TableRefused(ValueError):
    """For a table's ``__post_init__``: valid keys contradict each other.

    Args:
        fault: what was found, and what it must be.
        key: the key with the wrong value; empty for the table.
    """

    def __init__(self, fault: str, key: str = "") -> None:
        super().__init__(f"{key}: {fault}" if key else fault)
        self.fault = fault
        self.key = key

    def within(self, table: Place) -> tuple[Place, str]:
        return (*table, self.key) if self.key else table, self.fault


def error_of(where: str, faults: Sequence[tuple[Place, str]]) -> SettingsError:
    """Make the exception for faults of one file, variable or flag.

    Args:
        faults: place and text of each, in their order.
    """
    lines = [
        ": ".join(filter(None, (where, path_of(place), fault)))
        for place, fault in faults[:_MAX_SHOWN]
    ]
    if len(faults) > _MAX_SHOWN:
        lines.append(f"{where}: there are {len(faults) - _MAX_SHOWN} more faults")
    return SettingsError("\n".join(lines))


def each_line(beginning: str, lines: str) -> str:
    """Put a text before each line of faults."""
    return "\n".join(beginning + line for line in lines.splitlines())


def path_of(place: Place) -> str:
    """Write a place: ``rule#2.close.code`` is in the second of the ``rule`` tables."""
    path = ""
    for step in place:
        if isinstance(step, int):
            path += f"#{step + 1}"
        else:
            shown = step if _BARE_KEY.fullmatch(step) else repr(cut(step, _MAX_KEY))
            path += f".{shown}" if path else shown
    return path


def given(value: object, *, kind: bool = False, secret: bool = False) -> str:
    """Describe a found value, as in ``'x' was given``.

    Args:
        kind: whether its type is wrong, and is named: ``the string 'x' was given``.
        secret: whether only its type may be shown.
    """
    named, shown = _named_and_shown(value)
    if secret or not shown:
        return f"{named} was given"
    if kind:
        return f"the {named.partition(' ')[2]} {shown} was given"
    return f"{shown} was given"


def _named_and_shown(value: object) -> tuple[str, str]:
    """Return the type of a value, and the value in short; empty if the type is enough."""
    match value:
        case bool():
            return "a boolean", str(value).lower()
        case "":
            return "an empty string", ""
        case str():
            return "a string", repr(cut(value, _MAX_VALUE))
        case int() if value.bit_length() > _MAX_BITS:
            return "a number of very many digits", ""
        case int() | float():
            return "a number", str(value)
        case datetime():  # before date, its base class
            return "a date and time", value.isoformat()
        case date():
            return "a date", value.isoformat()
        case time():
            return "a time", value.isoformat()
        case list():
            return f"an array of {len(value)}" if value else "an empty array", ""
        case dict():
            return "a table", ""
        case _:
            return f"a {type(value).__name__}", cut(repr(value), _MAX_VALUE)


def unknown(key: str, known: Iterable[str]) -> str:
    """Describe an unknown key: name the nearest known key, or all of them."""
    keys = list(known)
    if not keys:
        return "this key is unknown; its table must be empty"
    # The beginning is enough, and difflib's time grows with the square of the length.
    near = get_close_matches(key[:_MAX_KEY], keys, n=1)
    if near:
        return f"this key is unknown; the nearest known one is {near[0]}"
    return f"this key is unknown; it must be one of {', '.join(keys)}"


def unknown_among(known: Iterable[str]) -> str:
    return f"this has an unknown key, which is not shown; it must be one of {', '.join(known)}"


def may_be_shown(key: str) -> bool:
    """Say whether an unknown key of a file of secrets may be shown: no secret looks like it."""
    return _HARMLESS_KEY.fullmatch(key) is not None
