"""Ends of streams that are counted and logged a little later, so that nobody waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from partway.gateway.clock import Clock, Timer
from partway.gateway.streams.open_stream import OpenStream

#: Seconds until an end is told, and how many wait at most: to count one, and to make and write its
#: line, takes the loop 50 µs, and 300 µs where what does it has gone cold.
_TOLD_AFTER: Final = 0.05
_MOST_WAITING: Final = 16


class LateEnds:
    """Streams that have ended and wait until it is told, all of them together.

    Whoever owns this calls :meth:`tell` before anybody looks at what is counted, and before the
    process ends.

    Args:
        tell: counts and logs one of them.
        clock: calls back after a time.
    """

    def __init__(self, tell: Callable[[OpenStream], object], clock: Clock) -> None:
        self._tell = tell
        self._clock = clock
        self._waiting: list[OpenStream] = []
        self._timer: Timer | None = None

    def add(self, stream: OpenStream) -> None:
        """Have an end told soon; at once, with those before it, where many wait already."""
        self._waiting.append(stream)
        if len(self._waiting) > _MOST_WAITING:
            self.tell()
        elif self._timer is None:
            self._timer = self._clock.call_later(_TOLD_AFTER, self.tell)

    def tell(self) -> None:
        """Tell of all that wait, in the order in which they came."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        waiting, self._waiting = self._waiting, []
        for stream in waiting:
            self._tell(stream)
