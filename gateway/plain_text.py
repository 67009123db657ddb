"""Foreign text, made safe to show."""

from __future__ import annotations

from typing import Final

#: Replaces a character that would steer a terminal, or that XML does not allow.
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def safe(text: str) -> str:
    """Return a text as one printable line: no control, direction change or lone surrogate."""
    return "".join(char if char.isprintable() else _REPLACEMENT for char in text)


def safe_lines(text: str, most: int | None = None) -> list[str]:
    """Return the lines of a text, each made safe; the last ``most`` if there are more."""
    lines = [safe(line) for line in text.expandtabs(4).rstrip().splitlines()]
    return lines if most is None else lines[-most:]


def cut(text: str, most: int) -> str:
    """Shorten a text to at most ``most`` characters, with an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
