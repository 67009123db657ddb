"""Whether a container that starts is ready for streams."""

from __future__ import annotations

from typing import Final

import aiohttp

from partway.gateway.clock import Clock
from partway.gateway.dialling import Address
from partway.gateway.limits import (
    PING_TIMEOUT,
    STARTUP_PING_LONGEST,
    STARTUP_PING_SHARE,
    STARTUP_PING_SHORTEST,
)
from partway.gateway.waiting import pause, time_limit

_METHOD_NOT_ALLOWED: Final = 405


async def pinged(address: Address, clock: Clock) -> None:
    """Wait until a container answers ``/ping`` with 200 (clauses 1.1-2, 1.1-3).

    For as long as that takes: whoever asks sets the limit.

    Args:
        address: where it listens, now or later.
        clock: measures the time between pings, and that of each.
    """
    began = clock.time()
    async with aiohttp.ClientSession(
        # Each ping is a connection of its own: to accept one is part of being ready.
        connector=aiohttp.TCPConnector(force_close=True),
        timeout=aiohttp.ClientTimeout(),  # none of its own
    ) as session:
        while not await _answers(session, f"http://{address}/ping", clock):
            wait = (clock.time() - began) * STARTUP_PING_SHARE
            await pause(clock, min(max(wait, STARTUP_PING_SHORTEST), STARTUP_PING_LONGEST))


async def _answers(session: aiohttp.ClientSession, url: str, clock: Clock) -> bool:
    """Whether ``/ping`` says 200, by GET or, where that is not allowed, by POST (clause 1.1-2)."""
    try:
        status = await _ask(session, "GET", url, clock)
        if status == _METHOD_NOT_ALLOWED:
            status = await _ask(session, "POST", url, clock)
    except (aiohttp.ClientError, OSError):  # a TimeoutError is one
        return False
    return status == 200


async def _ask(session: aiohttp.ClientSession, method: str, url: str, clock: Clock) -> int:
    """The status of an answer; its body is not read, and the connection ends with it."""
    async with (
        time_limit(clock, PING_TIMEOUT),
        session.request(method, url, allow_redirects=False) as answer,
    ):
        return answer.status
