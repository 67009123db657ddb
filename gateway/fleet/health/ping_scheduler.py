"""The scheduler of all pings: a limit on open pings, and a log line for pings that fail."""

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

log = logging.getLogger("partway.fleet")


class LoopTurns:
    """Turns of the event loop, each of which lets a few waiters go on, in their order.

    No clock is involved: a loop without other work takes its turns one after the other.

    Args:
        per_turn: how many waiters go on in a turn.
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
            if not turn.done():  # else the waiter has been cancelled
                turn.set_result(None)
                left -= 1
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._take_turn)


class PingRoom(Quota):
    """The limit on pings under way, shared by all endpoints.

    The limit protects file descriptors: a ping that waits for an answer holds one until its time is
    over, and a thousand instances of one endpoint may hang. Two rules keep other endpoints' pings
    from waiting for them:

    1. An endpoint may have as many pings under way as a multiple of the room that is left. So an
       endpoint that hangs leaves room, and each of several gets less the more there are.
    2. Pings without room wait in one line per endpoint, and the endpoints take turns.

    A fixed share would be worse. A large one lets two or three endpoints that hang take all the
    room. A small one makes a large endpoint's pings wait for each other while room is left.

    Args:
        pings: how many may be under way at a time.
    """

    def __init__(self, pings: int) -> None:
        # The number of instances bounds the line.
        super().__init__(QuotaLimits(pings, pings, ANY_NUMBER, ANY_NUMBER))

    @property
    def most_of_one(self) -> int:
        """How many pings of one endpoint may be under way now."""
        return (self._limits.total - self.used) * HEALTH_PINGS_PER_ROOM_LEFT


class Pinging:
    """Pings containers; a :data:`~.instance_context.Pinger`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._room = PingRoom(HEALTH_PINGS_AT_ONCE)
        self._turns = LoopTurns(HEALTH_PINGS_PER_TURN)
        self._quiet_until = -math.inf

    async def __call__(self, place: Place, seconds: float) -> str | None:
        """Ping one container when its turn comes.

        ``seconds`` limit the answer, counted from the ping's turn.

        Returns:
            None if the answer's status was 200, else what was wrong.

        Raises:
            OutOfDescriptors: this process or its machine has no file descriptor left.
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
            line = (
                "instances cannot be pinged, and keep their health: raise the limit of open files"
            )
            log.warning(LogLine(line, reason=str(error)))
