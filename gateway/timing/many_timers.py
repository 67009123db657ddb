"""Timers in large numbers, most of which are cancelled long before their time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

from partway.gateway.timing.clock import Clock, Timer

#: Seconds by which a loop's timer may come early: uvloop's tick in milliseconds.
_TICK: Final = 0.001


class Waiting(Protocol):
    """An object that waits for a time to be over, in at most one line.

    Attributes:
        due: when the time is over.
    """

    due: float

    def time_over(self) -> None:
        """Note that the time is over."""


#: Waiting objects, in the order in which their times are over.
Line: TypeAlias = dict[Waiting, None]


class ManyTimers:
    """A clock whose timers cost little to begin and to cancel.

    Timers of one length end in the order in which they begin. They form a line, and the underlying
    clock has one timer per line, which checks the first.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: dict[float, Line] = {}
        #: Monotonic seconds.
        self.time = clock.time

    def stand(self, who: Waiting, delay: float) -> Line:
        """Call an object's ``time_over`` after ``delay`` seconds, without a timer object.

        Args:
            who: is called once, unless taken out of the line before.
            delay: one of few lengths: each has a line of its own as long as it is used.

        Returns:
            The line; ``line.pop(who, None)`` takes the object out of it, and has no effect later.
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

        ``delay`` must be one of few lengths, as in :meth:`stand`.
        """
        place = _Place(callback, args)
        place.line = self.stand(place, delay)
        return place

    def _look(self, delay: float) -> None:
        """Call the objects in a line whose time is over, and set a timer for the next one.

        Args:
            delay: the line's. An empty line is removed.
        """
        line, now = self._lines[delay], self._clock.time() + _TICK
        try:
            while line:
                who = next(iter(line))
                if who.due > now:
                    break
                del line[who]
                who.time_over()
        finally:  # a fault of one must not stop the others
            if line:
                left = next(iter(line)).due - self._clock.time()
                self._clock.call_later(max(0.0, left), self._look, delay)
            else:
                del self._lines[delay]


class _Place:
    __slots__ = ("_args", "_callback", "due", "line")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._callback = callback
        self._args = args
        self.due: float
        self.line: Line

    def time_over(self) -> None:
        self._callback(*self._args)

    def cancel(self) -> None:
        """Cancel the call; a second or late cancel has no effect."""
        self.line.pop(self, None)
        # The callback's owner may refer to this timer: this breaks the cycle.
        self._callback, self._args = _nobody, ()


def _nobody() -> None:
    """The callback of a cancelled timer."""
