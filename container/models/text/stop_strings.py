"""Stop strings: the end of an answer, and the text that can be shown before it is known."""

from __future__ import annotations

from collections.abc import Sequence


class Stops:
    """Takes text in pieces, and returns the text that cannot belong to a stop string.

    The answer ends before the first complete stop string. If two are complete at once, it ends
    before the longer one. So the shown text does not depend on the pieces.

    At most one character less than the longest stop string is held back.

    Args:
        stops: the stop strings, any number; each must have a character.

    Attributes:
        stopped: whether a stop string has come. Nothing is shown after it.

    Raises:
        ValueError: a stop string is empty.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        if not all(stops):
            raise ValueError("a stop string is empty; it must have at least one character")
        self._stops = tuple(stops)
        self._held = ""
        self.stopped = False

    def add(self, text: str) -> str:
        """Add text, and return the text that may now be shown."""
        if self.stopped or not self._stops:
            return "" if self.stopped else text
        # No stop string begins in the shown text: that is why the rest was held back.
        text = self._held + text
        found = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.stopped = True
            _, shown = min(found)
            self._held = ""
        else:
            shown = min(beginning(stop, text) for stop in self._stops)
            self._held = text[shown:]
        return text[:shown]

    def flush(self) -> str:
        """Return the held text at the end: no stop string is complete."""
        held, self._held = self._held, ""
        return held


def beginning(stop: str, text: str) -> int:
    """Return the start of the longest suffix of ``text`` that is a proper prefix of ``stop``."""
    at = max(0, len(text) - len(stop) + 1)
    while (at := text.find(stop[0], at)) >= 0:
        if stop.startswith(text[at:]):
            return at
        at += 1
    return len(text)
