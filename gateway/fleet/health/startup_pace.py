"""The pace at which a container that starts is asked whether it is ready for streams."""

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

    For as long as that is: whoever asks sets the limit.

    Args:
        is_ready: asks it once.
        clock: measures the time since the first question, and that between two.
    """
    began = clock.time()
    while not await is_ready():
        wait = (clock.time() - began) * STARTUP_PING_SHARE
        await pause(clock, min(max(wait, STARTUP_PING_SHORTEST), STARTUP_PING_LONGEST))


async def pinged(address: Address, clock: Clock, route: str = PING) -> None:
    """Wait until what listens at an address answers ``/ping`` with 200, for as long as that takes.

    Args:
        address: where it listens, now or later.
        clock: measures the time between pings, and that of each.
        route: the path that is asked for in the place of ``/ping``.
    """

    async def is_ready() -> bool:
        try:
            return await ping(address, clock, route=route) is None
        except OutOfDescriptors:  # nothing is known of it
            return False

    await ask_until_ready(is_ready, clock)
