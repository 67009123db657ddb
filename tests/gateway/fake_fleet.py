"""A fleet that is as a test says it is, for whatever asks one."""

from __future__ import annotations

import asyncio

from partway.gateway.fleet.status import EndpointStatus
from tests.gateway.fleet.statuses import an_endpoint


class FakeFleet:
    """Endpoints as they are said to be; restarts end when they are told to.

    Attributes:
        endpoints: what the fleet says of itself.
        restarted: names of endpoints, as they were asked for.
        restart_fails: what a restart ends with.
        may_restart: what a restart waits for.
    """

    def __init__(self, *endpoints: EndpointStatus) -> None:
        self.endpoints = endpoints or (an_endpoint(),)
        self.restarted: list[str] = []
        self.restart_fails: Exception | None = None
        self.may_restart = asyncio.Event()
        self.may_restart.set()

    def describe(self) -> tuple[EndpointStatus, ...]:
        return self.endpoints

    async def restart(self, name: str) -> None:
        self.restarted.append(name)
        await self.may_restart.wait()
        if self.restart_fails is not None:
            raise self.restart_fails
