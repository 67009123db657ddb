"""Room for the pings under way, of which no endpoint's slow ones take all."""

from __future__ import annotations

import asyncio
from collections import Counter

from partway.gateway.fleet.limits import HEALTH_PINGS_PER_ROOM_LEFT


class PingRoom:
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
        self._left = pings
        self._under_way: Counter[str] = Counter()
        self._waiting: dict[str, dict[asyncio.Future[None], None]] = {}

    async def enter(self, endpoint: str) -> None:
        """Wait until there is room for one ping more, which :meth:`leave` gives back.

        Args:
            endpoint: the name of whose instance is to be pinged.
        """
        if self._has_room(endpoint):  # so nobody of it waits
            self._take(endpoint)
            return
        who = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(endpoint, {})[who] = None
        try:
            await who
        except asyncio.CancelledError:
            if who.cancelled():
                self._stop_waiting(endpoint, who)
            else:  # the room was theirs already
                self.leave(endpoint)
            raise

    def leave(self, endpoint: str) -> None:
        """Give back the room of one ping, which is over.

        Args:
            endpoint: as it entered.
        """
        self._left += 1
        self._under_way[endpoint] -= 1
        if not self._under_way[endpoint]:
            del self._under_way[endpoint]
        while self._left:  # so endpoints that are passed over have some under way, and are few
            first = next(filter(self._has_room, self._waiting), None)
            if first is None:
                break
            self._let_in(first)

    def _let_in(self, endpoint: str) -> None:
        """Let in the first of those of an endpoint that wait; the next is behind the others'."""
        who = next(iter(self._waiting[endpoint]))
        self._stop_waiting(endpoint, who)
        if not who.done():  # else whoever waited has been cancelled
            self._take(endpoint)
            who.set_result(None)
        if endpoint in self._waiting:
            self._waiting[endpoint] = self._waiting.pop(endpoint)

    def _has_room(self, endpoint: str) -> bool:
        return self._under_way[endpoint] < self._left * HEALTH_PINGS_PER_ROOM_LEFT

    def _take(self, endpoint: str) -> None:
        self._left -= 1
        self._under_way[endpoint] += 1

    def _stop_waiting(self, endpoint: str, who: asyncio.Future[None]) -> None:
        line = self._waiting.get(endpoint, {})
        line.pop(who, None)
        if not line:
            self._waiting.pop(endpoint, None)
