"""The pings of all instances: so many at a time, and one line of those that cannot be made."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque

from partway.gateway.fleet.endpoint import Place
from partway.gateway.fleet.health.ping import ping_place
from partway.gateway.fleet.limits import (
    HEALTH_PINGS_AT_ONCE,
    HEALTH_PINGS_PER_ROOM_LEFT,
    HEALTH_PINGS_PER_TURN,
    UNPINGED_LINE_INTERVAL,
)
from partway.gateway.network.dialling import OutOfDescriptors
from partway.gateway.quota import ANY_NUMBER, Quota, QuotaLimits
from partway.gateway.timing.clock import Clock
from partway.log_lines import LogLine


class LoopTurns:
    """The turns of a loop, in each of which only so many of those who wait go on, in their order.

    Nobody waits by the clock: where the loop has nothing else to do, its turns follow each other.

    Args:
        per_turn: how many go on in a turn.
    """

    def __init__(self, per_turn: int) -> None:
        self._per_turn = per_turn
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def next(self) -> None:
        """Wait for a turn of the running loop, which must be the same each time."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._take_turn)
        self._waiting.append(turn)
        await turn

    def _take_turn(self) -> None:
        left = self._per_turn
        while left and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else whoever waited has been cancelled
                turn.set_result(None)
                left -= 1
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._take_turn)


class PingRoom(Quota):
    """So many pings are under way at a time, which all endpoints share.

    What is bounded are file descriptors: a ping that waits for its answer costs little else, but it
    keeps its own until its time is over, and a thousand instances of one endpoint may hang. So that
    no other endpoint's pings wait for them:

    1. An endpoint has at most so many times as many under way as there is room left for. So one
       that hangs leaves some of it, and several have each the less the more they are.
    2. Pings for which there is no room wait by endpoints, which take turns in what becomes free.

    A fixed share would not do: a large one is all of the room once two or three endpoints hang, and
    with a small one a large endpoint's pings wait for each other while nobody else needs the room.

    Args:
        pings: how many are under way at a time.
    """

    def __init__(self, pings: int) -> None:
        # The number of instances bounds the line.
        super().__init__(QuotaLimits(pings, pings, ANY_NUMBER, ANY_NUMBER))

    @property
    def most_of_one(self) -> int:
        """How many pings of one endpoint may be under way now."""
        return (self._limits.total - self.used) * HEALTH_PINGS_PER_ROOM_LEFT


log = logging.getLogger("partway.fleet")


class Pinging:
    """Asks containers for ``/ping``; a :data:`~partway.gateway.fleet.instance_context.Pinger`.

    Args:
        clock: measures the time of each ping, and that between two lines.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._room = PingRoom(HEALTH_PINGS_AT_ONCE)
        self._turns = LoopTurns(HEALTH_PINGS_PER_TURN)
        self._quiet_until = -math.inf

    async def __call__(self, place: Place, seconds: float) -> str | None:
        """Ask one, in its turn.

        Args:
            place: where the instance is.
            seconds: for the answer, from its turn on.

        Returns:
            None if the answer's status was 200, else what was wrong.

        Raises:
            OutOfDescriptors: this process, or its machine, has no file descriptor left.
        """
        await self._room.claim(1, place.endpoint)
        try:
            await self._turns.next()
            return await ping_place(place, self._clock, seconds)
        except OutOfDescriptors as error:
            self._tell(error)
            raise
        finally:
            self._room.give_back(1, place.endpoint)

    def _tell(self, error: OutOfDescriptors) -> None:
        now = self._clock.time()
        if now >= self._quiet_until:
            self._quiet_until = now + UNPINGED_LINE_INTERVAL
            what = "instances are not pinged, and stay as they are: raise the limit of open files"
            log.warning(LogLine(what, reason=str(error)))
