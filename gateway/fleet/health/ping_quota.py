"""Room for the pings under way, of which no endpoint's slow ones take all."""

from __future__ import annotations

from partway.gateway.fleet.limits import HEALTH_PINGS_PER_ROOM_LEFT
from partway.gateway.quota import ANY_NUMBER, Quota, QuotaLimits


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
