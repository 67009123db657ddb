"""Asking containers for ``/ping``: whether one is ready, and which endpoints' are at the start."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Iterable
from typing import Final

import aiohttp

from partway.gateway.clock import Clock
from partway.gateway.dialling import without_tls
from partway.gateway.fleet.endpoints import Endpoint, Place, places
from partway.gateway.limits import PING_TIMEOUT, PINGS_AT_ONCE
from partway.gateway.waiting import time_limit
from partway.log_lines import LogLine

log = logging.getLogger("partway.fleet")

_METHOD_NOT_ALLOWED: Final = 405
_NO_ADDRESS: Final = "the host has no address"


def ping_session() -> aiohttp.ClientSession:
    """Return what pings are sent by, to be closed at their end; every ping sets its own time."""
    return aiohttp.ClientSession(
        # Each ping is a connection of its own: to accept one is part of being ready.
        connector=aiohttp.TCPConnector(force_close=True),
        timeout=aiohttp.ClientTimeout(),  # none of its own
    )


async def ping(
    session: aiohttp.ClientSession,
    url: str,
    clock: Clock,
    tls: ssl.SSLContext | None = None,
    timeout: float = PING_TIMEOUT,
) -> str | None:
    """Ask a container for ``/ping``, by GET or, where that is not allowed, by POST (clause 1.1-2).

    Args:
        session: of :func:`ping_session`.
        url: the container's, without a path.
        clock: measures the time of each of the two.
        tls: the client's side of TLS, for ``https://``.
        timeout: seconds for each of the two.

    Returns:
        None if the answer's status was 200, else what was wrong.
    """
    try:
        status = await _ask(session, "GET", url, clock, tls, timeout)
        if status == _METHOD_NOT_ALLOWED:
            status = await _ask(session, "POST", url, clock, tls, timeout)
    except (aiohttp.ClientError, OSError) as error:  # a TimeoutError is one
        return _wrong(error, timeout)
    except UnicodeError:  # it cannot be a name of DNS: a label of 64 letters, say
        return _NO_ADDRESS
    return None if status == 200 else f"/ping was answered with status {status}"


async def _ask(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    clock: Clock,
    tls: ssl.SSLContext | None,
    timeout: float,
) -> int:
    """The status of an answer; its body is not read, and the connection ends with it."""
    async with (
        time_limit(clock, timeout),
        session.request(
            method, f"{url}/ping", allow_redirects=False, ssl=True if tls is None else tls
        ) as answer,
    ):
        return answer.status


def _wrong(error: aiohttp.ClientError | OSError, timeout: float) -> str:
    """What an error means, in the words that a refused stream's line has for it."""
    if isinstance(error, TimeoutError):
        return f"/ping was not answered within {timeout:g} s"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return _NO_ADDRESS
    if isinstance(error.__cause__, ssl.SSLError):  # a certificate's errors are such
        return str(without_tls(error.__cause__))
    number = error.errno if isinstance(error, OSError) else None
    if number:
        return os.strerror(number)
    return f"/ping was not answered with valid HTTP: {type(error).__name__}"


async def tell_which_answer(endpoints: Iterable[Endpoint], clock: Clock) -> None:
    """Log of each endpoint whether its container answers, once, with what was wrong if not.

    A container may come later, so this is for the operator to know and for nothing else.

    Args:
        endpoints: those that there are.
        clock: measures the time of each ping.
    """
    turns = asyncio.Semaphore(PINGS_AT_ONCE)

    async def tell(session: aiohttp.ClientSession, place: Place) -> None:
        whose = {"endpoint": place.endpoint, "container": place.url}
        async with turns:
            try:
                tls = None if place.tls is None else place.tls.context()
                trouble = await ping(session, place.url, clock, tls)
            except Exception:  # one that nobody has thought of is not to silence the others' lines
                log.exception(LogLine("endpoint was not asked", **whose))
                return
        if trouble is None:
            log.info(LogLine("endpoint answers", **whose))
        else:
            log.warning(LogLine("endpoint does not answer", **whose, reason=trouble))

    async with ping_session() as session, asyncio.TaskGroup() as asking:
        for endpoint in endpoints:
            for place in places(endpoint):
                asking.create_task(tell(session, place))
