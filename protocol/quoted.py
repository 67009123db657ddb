"""A client's words in a message that is shown to it, and logged."""

from __future__ import annotations

from typing import Final

#: Characters of a client's words that a message repeats: two media types with their parameters.
QUOTED_CHARACTERS: Final = 128


def quoted(words: str) -> str:
    """The words in quotes: in printable ASCII, and with an ellipsis if they were cut."""
    if len(words) > QUOTED_CHARACTERS:
        words = words[: QUOTED_CHARACTERS - 3] + "..."
    return ascii(words)
