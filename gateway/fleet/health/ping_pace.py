"""The pace of pings to an instance in service."""

from __future__ import annotations

import asyncio
import math
import random
from typing import Final

from partway.gateway.fleet.limits import EXTRA_PING_AFTER
from partway.gateway.timing.clock import Clock, Timer

#: The first wait is at least this share of the interval, each later wait at least that (rule 1).
_EARLIEST_FIRST: Final = 0.5
_EARLIEST: Final = 0.8

#: Moments for pings within one interval (rule 2).
_MOMENTS: Final = 40


class PingPace:
    """The waits between an instance's pings.

    1. Pings of instances that began together spread out and stay apart. The first wait is a random
       share of the interval's second half, each later wait a random share of most of the interval.
       No wait is longer than the interval.
    2. Pings are made at moments that all instances with the same interval share: a wake-up for each
       ping alone costs more than the ping.
    3. An instance with a failed connection is pinged early, but only some time after its last ping.
       So a client that makes connections fail cannot cause pings at will.

    Args:
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
        """Ping the instance early: a connection to it has failed."""
        self._hurried = True
        if self._due is not None:
            self._wake_at(self._earliest)

    async def until_next(self) -> None:
        """Wait until the next ping is due, counted from now."""
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
