"""Timers of which there are many, and most are cancelled long before their time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from partway.gateway.clock import Clock, Timer

#: Seconds by which a loop's timer may come early: uvloop's tick in milliseconds.
_TICK: Final = 0.001


class ManyTimers:
    """A clock whose timers cost little to begin and to cancel.

    Those of one length end in the order in which they begin. They stand in a line, and the clock
    below has one timer for each line, which looks at whoever is first then.

    Args:
        clock: tells the time, and calls back after a time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: dict[float, _Line] = {}
        #: Monotonic seconds.
        self.time = clock.time

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call ``callback`` with ``args`` after ``delay`` seconds.

        Args:
            delay: one of few lengths: each has a line of its own as long as somebody stands in it.
            callback: is called once, unless the timer is cancelled before.
            args: what it is called with.
        """
        line = self._lines.get(delay)
        if line is None:
            line = self._lines[delay] = _Line(self._clock, delay, self._lines)
        time = self.time
        place = _Place(line.waiting, time() + delay, callback, args)
        line.waiting[place] = None
        return place


class _Line:
    """The timers of one length.

    Args:
        clock: tells the time, and calls back after a time.
        delay: the length.
        lines: all lines; one that is empty is taken out when its timer looks.

    Attributes:
        waiting: the timers, in the order in which they end.
    """

    __slots__ = ("_clock", "_delay", "_lines", "waiting")

    def __init__(self, clock: Clock, delay: float, lines: dict[float, _Line]) -> None:
        self._clock = clock
        self._delay = delay
        self._lines = lines
        self.waiting: dict[_Place, None] = {}
        clock.call_later(delay, self._look)

    def _look(self) -> None:
        """Call those whose time is over, and look again when it is the next one's."""
        waiting, now = self.waiting, self._clock.time() + _TICK
        try:
            while waiting:
                place = next(iter(waiting))
                if place.due > now:
                    break
                del waiting[place]
                place.callback(*place.args)
        finally:  # whatever is wrong with one, the others have their time
            if waiting:
                first = next(iter(waiting))
                self._clock.call_later(max(0.0, first.due - self._clock.time()), self._look)
            else:
                del self._lines[self._delay]


class _Place:
    """A timer, which stands in a line.

    Attributes:
        due: when its time is over.
        callback: what is called then.
        args: what with.
    """

    __slots__ = ("_waiting", "args", "callback", "due")

    def __init__(
        self,
        waiting: dict[_Place, None],
        due: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
    ) -> None:
        self._waiting = waiting
        self.due = due
        self.callback = callback
        self.args = args

    def cancel(self) -> None:
        """Have nobody called; said again, or later, it means nothing."""
        self._waiting.pop(self, None)
        # Whoever was to be called has this timer: they would hold each other.
        self.callback, self.args = _nobody, ()


def _nobody() -> None:
    """What a timer calls that was cancelled."""
