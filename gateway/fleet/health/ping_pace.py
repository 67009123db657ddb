"""When an instance in service is pinged next."""

from __future__ import annotations

import asyncio
import math
import random
from typing import Final

from partway.gateway.fleet.limits import (
    EXTRA_PING_AFTER,
)
from partway.gateway.timing.clock import Clock, Timer

#: The first wait is this share of the interval, or more, and each one behind it that (rule 1).
_EARLIEST_FIRST: Final = 0.5
_EARLIEST: Final = 0.8

#: So many times in an interval there are moments for pings (rule 2).
_MOMENTS: Final = 40


class PingPace:
    """The waits between an instance's pings.

    1. Those of many instances that began together are to part at once, and to stay apart: so the
       first wait is any share of the interval's second half, each one behind it another share of
       most of it, and none is longer than it.
    2. Those of many are made together all the same, at moments that all instances with the same
       interval share: to wake for each by itself costs more than the ping does.
    3. One with which a connection has failed is pinged early, but not as soon after the last ping
       as all that: whoever can make connections fail is not to make pings.

    Args:
        clock: measures the waits, and says which moments there are.
        interval: seconds between two pings.
    """

    def __init__(self, clock: Clock, interval: float) -> None:
        self._clock = clock
        self._interval = interval
        self._grid = interval / _MOMENTS
        self._shortest = _EARLIEST_FIRST
        self._hurried = False
        self._earliest = 0.0
        self._due: asyncio.Future[None] | None = None
        self._timer: Timer | None = None

    def hurry(self) -> None:
        """Ping it early: a connection with it has failed."""
        self._hurried = True
        if self._due is not None:
            self._wake_at(self._earliest)

    async def until_next(self) -> None:
        """Wait until it is to be pinged again; counted from now."""
        now = self._clock.time()
        latest = now + self._interval * random.uniform(self._shortest, 1)  # noqa: S311 (no secret)
        self._shortest = _EARLIEST
        moment = math.floor(latest / self._grid) * self._grid
        self._earliest = min(now + EXTRA_PING_AFTER, moment)
        self._due = asyncio.get_running_loop().create_future()
        self._wake_at(self._earliest if self._hurried else moment)
        try:
            await self._due
        finally:
            self._stop_waiting()
            self._due = None
        self._hurried = False

    def _wake_at(self, moment: float) -> None:
        self._stop_waiting()
        self._timer = self._clock.call_later(max(0.0, moment - self._clock.time()), self._wake)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        if self._due is not None and not self._due.done():
            self._due.set_result(None)
