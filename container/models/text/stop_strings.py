"""Stop strings: where an answer ends, and what of it may be shown before that is known."""

from __future__ import annotations

from collections.abc import Sequence


class Stops:
    """Text in, in pieces of any size; out comes what no stop string can still claim.

    The answer ends where the first of them is complete; if two are complete at once, before the
    longer one. So what is shown depends on the text alone, never on how it was cut into pieces.

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
        """What may be shown now that more text has come."""
        if self.stopped or not self._stops:
            return "" if self.stopped else text
        # No stop string begins in what has been shown already: that is why the rest was held.
        text = self._held + text
        found = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.stopped = True
            _, shown = min(found)
            self._held = ""
        else:
            shown = min(_beginning(stop, text) for stop in self._stops)
            self._held = text[shown:]
        return text[:shown]

    def flush(self) -> str:
        """What was held back for a stop string that will not come: the text is over."""
        held, self._held = self._held, ""
        return held


def _beginning(stop: str, text: str) -> int:
    """Where the longest end of ``text`` lies that is a beginning of ``stop``, not all of it."""
    at = max(0, len(text) - len(stop) + 1)
    while (at := text.find(stop[0], at)) >= 0:
        if stop.startswith(text[at:]):
            return at
        at += 1
    return len(text)
