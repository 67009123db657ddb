"""What others said, made safe to show: their words are not ours."""

from __future__ import annotations

from typing import Final

#: Takes the place of a character that would steer a terminal, or that XML does not allow.
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def safe(text: str) -> str:
    """Return a text as one printable line: no control, change of direction or half of a pair."""
    return "".join(char if char.isprintable() else _REPLACEMENT for char in text)


def safe_lines(text: str, most: int | None = None) -> list[str]:
    """Return the lines of a text, each made safe; the last ``most`` if there are more."""
    lines = [safe(line) for line in text.expandtabs(4).rstrip().splitlines()]
    return lines if most is None else lines[-most:]


def cut(text: str, most: int) -> str:
    """Return a text, or its beginning and an ellipsis, ``most`` characters at most."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
