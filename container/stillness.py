"""For how long nothing has moved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Stillness:
    """Looks from time to time at what should move, and says for how long it has not.

    Args:
        loop: whose time and timers are used.
        measure: gives what differs once something has moved.
        looked: called at each look with the seconds since the last look that saw a movement, or
            since the beginning; 0.0 if this one saw one.
    """

    __slots__ = ("_every", "_looked", "_loop", "_measure", "_seen", "_since", "_timer")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        measure: Callable[[], object],
        looked: Callable[[float], object],
    ) -> None:
        self._loop = loop
        self._measure = measure
        self._looked = looked
        self._every = 0.0
        self._seen: object = None
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, every: float) -> None:
        """Look each so many seconds from now on, until :meth:`stop`."""
        self.stop()
        self._every = every
        self._seen = self._measure()
        self._since = self._loop.time()
        self._look_later()

    def stop(self) -> None:
        """Look no more, if anybody did."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_later(self) -> None:
        self._timer = self._loop.call_later(self._every, self._look)

    def _look(self) -> None:
        seen, now = self._measure(), self._loop.time()
        if seen != self._seen:
            self._seen, self._since = seen, now
        self._look_later()
        self._looked(now - self._since)
