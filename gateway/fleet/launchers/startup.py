"""Whether a container that starts is ready for streams."""

from __future__ import annotations

from partway.gateway.clock import Clock
from partway.gateway.dialling import Address
from partway.gateway.fleet.limits import (
    STARTUP_PING_LONGEST,
    STARTUP_PING_SHARE,
    STARTUP_PING_SHORTEST,
)
from partway.gateway.fleet.ping import ping
from partway.gateway.waiting import pause


async def pinged(address: Address, clock: Clock) -> None:
    """Wait until a container answers ``/ping`` with 200 (clauses 1.1-2, 1.1-3).

    For as long as that takes: whoever asks sets the limit.

    Args:
        address: where it listens, now or later.
        clock: measures the time between pings, and that of each.
    """
    began = clock.time()
    while await ping(address, clock) is not None:
        wait = (clock.time() - began) * STARTUP_PING_SHARE
        await pause(clock, min(max(wait, STARTUP_PING_SHORTEST), STARTUP_PING_LONGEST))
