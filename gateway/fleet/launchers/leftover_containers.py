"""The removal of containers that a killed gateway has left to an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Protocol

from partway.gateway.fleet.fleet import Fleet
from partway.gateway.fleet.limits import LEFTOVERS_TIMEOUT
from partway.gateway.fleet.provisions import Provisions


class PendingEndpoints(Protocol):
    """Endpoints that will run, and are not in the fleet yet."""

    async def pending_names(self) -> Collection[str]:
        """Return their names, once these are known."""

    async def has_found(self, seconds: float) -> None:
        """Wait until the fleet has all of them, for at most so many seconds."""


class NoPendingEndpoints:
    async def pending_names(self) -> Collection[str]:
        return ()

    async def has_found(self, seconds: float) -> None:
        """Return at once."""


class LeftoverContainers:
    """Lets endpoints adopt leftover containers, and removes the rest."""

    def __init__(self, fleet: Fleet, provisions: Provisions) -> None:
        self._fleet = fleet
        self._provisions = provisions
        self._task: asyncio.Task[None] | None = None

    def remove(self, pending: PendingEndpoints) -> None:
        """Begin the removal.

        Args:
            pending: further endpoints that may take containers over.
        """
        self._provisions.take_over()
        self._task = asyncio.create_task(
            self._remove(pending), name="removal of leftover containers"
        )

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _remove(self, pending: PendingEndpoints) -> None:
        names = await pending.pending_names()
        wanted = {(each.name, one.name) for each in self._fleet.describe() for one in each.variants}
        await self._provisions.remove_leftovers(
            lambda endpoint, variant: endpoint in names or (endpoint, variant) in wanted
        )
        await pending.has_found(LEFTOVERS_TIMEOUT)
        await self._fleet.has_settled(LEFTOVERS_TIMEOUT)
        await self._provisions.remove_leftovers()
        await self._provisions.end_unclaimed(self._fleet.router.load)
