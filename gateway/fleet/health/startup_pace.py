"""The pace of pings to a container that is starting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from partway.gateway.fleet.health.ping import ping
from partway.gateway.fleet.limits import (
    STARTUP_PING_LONGEST,
    STARTUP_PING_SHARE,
    STARTUP_PING_SHORTEST,
)
from partway.gateway.fleet.platform_interface import PING
from partway.gateway.network.dialling import Address, OutOfDescriptors
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import pause


async def ask_until_ready(is_ready: Callable[[], Awaitable[bool]], clock: Clock) -> None:
    """Ask a container until it is ready (clauses 1.1-2, 1.1-3), less often the longer it takes.

    There is no time limit here; the caller sets one.
    """
    began = clock.time()
    while not await is_ready():
        wait = (clock.time() - began) * STARTUP_PING_SHARE
        await pause(clock, min(max(wait, STARTUP_PING_SHORTEST), STARTUP_PING_LONGEST))


async def pinged(address: Address, clock: Clock, route: str = PING) -> None:
    """Wait until a server at an address answers ``/ping`` with 200, without a time limit.

    The server may begin to listen later.
    """

    async def is_ready() -> bool:
        try:
            return await ping(address, clock, route=route) is None
        except OutOfDescriptors:  # nothing is known of the container
            return False

    await ask_until_ready(is_ready, clock)
