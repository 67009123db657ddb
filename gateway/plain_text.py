"""What others said, made safe to show: their words are not ours."""

from __future__ import annotations

from typing import Final

#: In the place of what would steer a terminal, or is no character of XML.
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def safe(text: str) -> str:
    """One line of printable characters: no control, no change of direction, no half of a pair."""
    return "".join(char if char.isprintable() else _REPLACEMENT for char in text)


def safe_lines(text: str, most: int | None = None) -> list[str]:
    """Its lines, safe; the last ones if there are more than ``most``."""
    lines = [safe(line) for line in text.expandtabs(4).rstrip().splitlines()]
    return lines if most is None else lines[-most:]


def cut(text: str, most: int) -> str:
    """The beginning of it, with an ellipsis where it is longer."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
