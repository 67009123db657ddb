"""Timers of which there are many, and most are cancelled long before their time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

from partway.gateway.timing.clock import Clock, Timer

#: Seconds by which a loop's timer may come early: uvloop's tick in milliseconds.
_TICK: Final = 0.001


class Waiting(Protocol):
    """Somebody who waits for a time to be over, in one line at most.

    Attributes:
        due: when it is.
    """

    due: float

    def time_over(self) -> None:
        """It is over."""


#: Those who stand in a line, in the order in which their times are over.
Line: TypeAlias = dict[Waiting, None]


class ManyTimers:
    """A clock whose timers cost little to begin and to cancel.

    Those of one length end in the order in which they begin. They stand in a line, and the clock
    below has one timer for each line, which looks at whoever is first then.

    Args:
        clock: tells the time, and calls back after a time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: dict[float, Line] = {}
        #: Monotonic seconds.
        self.time = clock.time

    def stand(self, who: Waiting, delay: float) -> Line:
        """Have somebody told after ``delay`` seconds, for whom no timer need be made.

        Args:
            who: is told once, unless taken out of the line before.
            delay: one of few lengths: each has a line of its own as long as somebody stands in it.

        Returns:
            The line; ``line.pop(who, None)`` takes them out of it, and said again, or later, it
            means nothing.
        """
        line = self._lines.get(delay)
        if line is None:
            line = self._lines[delay] = {}
            self._clock.call_later(delay, self._look, delay)
        time = self.time
        who.due = time() + delay
        line[who] = None
        return line

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call ``callback`` with ``args`` after ``delay`` seconds.

        Args:
            delay: as of :meth:`stand`.
            callback: is called once, unless the timer is cancelled before.
            args: what it is called with.
        """
        place = _Place(callback, args)
        place.line = self.stand(place, delay)
        return place

    def _look(self, delay: float) -> None:
        """Tell those in a line whose time is over, and look again when it is the next one's.

        Args:
            delay: the line's. One that is empty is taken out.
        """
        line, now = self._lines[delay], self._clock.time() + _TICK
        try:
            while line:
                who = next(iter(line))
                if who.due > now:
                    break
                del line[who]
                who.time_over()
        finally:  # whatever is wrong with one, the others have their time
            if line:
                left = next(iter(line)).due - self._clock.time()
                self._clock.call_later(max(0.0, left), self._look, delay)
            else:
                del self._lines[delay]


class _Place:
    """A timer, which stands in a line.

    Args:
        callback: what is called when its time is over.
        args: what with.

    Attributes:
        due: when that is.
        line: where it stands.
    """

    __slots__ = ("_args", "_callback", "due", "line")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._callback = callback
        self._args = args
        self.due: float
        self.line: Line

    def time_over(self) -> None:
        self._callback(*self._args)

    def cancel(self) -> None:
        """Have nobody called; said again, or later, it means nothing."""
        self.line.pop(self, None)
        # Whoever was to be called has this timer: they would hold each other.
        self._callback, self._args = _nobody, ()


def _nobody() -> None:
    """What a timer calls that was cancelled."""
