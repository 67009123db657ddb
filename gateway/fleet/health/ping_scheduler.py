"""The pings of all instances: so many at a time, and one line of those that cannot be made."""

from __future__ import annotations

import logging
import math

from partway.gateway.fleet.endpoint import Place
from partway.gateway.fleet.health.ping import ping_place
from partway.gateway.fleet.health.ping_quota import PingRoom
from partway.gateway.fleet.limits import (
    HEALTH_PINGS_AT_ONCE,
    HEALTH_PINGS_PER_TURN,
    UNPINGED_LINE_INTERVAL,
)
from partway.gateway.network.dialling import OutOfDescriptors
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.loop_turns import LoopTurns
from partway.log_lines import LogLine

log = logging.getLogger("partway.fleet")


class Pinging:
    """Asks containers for ``/ping``; a :data:`~.making.Pinger`.

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
