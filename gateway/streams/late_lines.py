"""Lines of the log that are written a little later, so that nobody waits for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from partway.gateway.clock import Clock, Timer
from partway.log_lines import LogLine

#: Seconds until a line is written, and how many wait at most: to make and write one takes the loop
#: 40 µs, and 200 µs where what does it has gone cold.
_WRITTEN_AFTER: Final = 0.05
_MOST_WAITING: Final = 16


class LateLines:
    """Lines that wait until they are written, all of them together.

    Whoever owns this calls :meth:`write` before the process ends.

    Args:
        write: writes one of them.
        clock: calls back after a time.
    """

    def __init__(self, write: Callable[[LogLine], object], clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._waiting: list[LogLine] = []
        self._timer: Timer | None = None

    def add(self, line: LogLine) -> None:
        """Have a line written soon; at once, with those before it, where many wait already."""
        self._waiting.append(line)
        if len(self._waiting) > _MOST_WAITING:
            self.write()
        elif self._timer is None:
            self._timer = self._clock.call_later(_WRITTEN_AFTER, self.write)

    def write(self) -> None:
        """Write all that wait, in the order in which they came."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        waiting, self._waiting = self._waiting, []
        for line in waiting:
            self._write(line)
