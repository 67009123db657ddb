"""Departure schedule of a shutdown, so that clients do not all return at once.

The schedule follows the clock and does not sleep between streams: short timers fire late, and on a
busy loop thousands of them would outlast the SIGKILL. Every call takes the clock's reading, so a
test can choose any time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Generic, TypeVar

from partway.protocol.limits import SHUTDOWN_BURST, SHUTDOWN_STEP

_Member = TypeVar("_Member")

#: A step counts as begun this many seconds before its time. Clocks tick in milliseconds, and an
#: event loop's timer may fire a moment early: it would have to be set again.
_TICK = 0.001


class Departures(Generic[_Member]):
    """Names the members that are to be told to go, evenly over a window of time.

    The owner tells the members that :meth:`due` names, waits for about :meth:`wait` seconds, and
    asks again until none is :attr:`left`. Members that have gone by themselves are named too; the
    owner skips them.

    Rules:
        1. The pace is even, in steps that are at least ``SHUTDOWN_STEP`` apart: many members share
           a step, few have one each. The first step is at once, the last one before the window's
           end.
        2. A late owner gets all members whose step has come, so delays do not add up.
        3. At most ``SHUTDOWN_BURST`` members are named at a time. The loop does its other work for
           one turn in between.

    Args:
        window: seconds; 0 for all at once.
        now: the clock's reading, in seconds, as the window begins.
    """

    __slots__ = ("_began", "_members", "_steps", "_told", "_window")

    def __init__(self, members: Iterable[_Member], window: float, now: float) -> None:
        self._members = tuple(members)
        self._told = 0
        self._window = window
        self._began = now
        self._steps = max(1, min(len(self._members), int(window / SHUTDOWN_STEP)))

    @property
    def left(self) -> int:
        return len(self._members) - self._told

    def due(self, now: float) -> tuple[_Member, ...]:
        """The members that are to be told now; each member is named once."""
        told = self._told
        self._told = max(told, min(self._share(self._begun(now)), told + SHUTDOWN_BURST))
        return self._members[told : self._told]

    def wait(self, now: float) -> float:
        """Seconds until :meth:`due` has more names or, with no member left, until the window ends.

        The result is 0 if :meth:`due` has more names already (rule 3), or if the window is over.
        """
        begun = self._begun(now)
        if self._told < self._share(begun):
            return 0.0
        return max(0.0, self._began + self._starts_at(begun) - now)

    def hasten(self) -> None:
        """End the window: everybody is due."""
        self._window, self._steps = 0.0, 1

    def _begun(self, now: float) -> int:
        passed = now - self._began + _TICK
        return bisect_right(range(self._steps), passed, key=self._starts_at)

    def _starts_at(self, step: int) -> float:
        """Seconds from the window's beginning until a step; after the last step, until its end."""
        return self._window * step / self._steps

    def _share(self, steps: int) -> int:
        """How many members the first ``steps`` steps have in all."""
        return len(self._members) * steps // self._steps
