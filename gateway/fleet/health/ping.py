"""Pings: asking containers for ``/ping``, and logging at the start which endpoints answer."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterable
from typing import Final

from partway.gateway.fleet.endpoint import Endpoint, Place, places
from partway.gateway.fleet.health.ping_answer import BadStatus, NoAnswer, PingAnswer, Silence, cut
from partway.gateway.fleet.health.ping_socket import ask_by_socket
from partway.gateway.fleet.limits import PING_TIMEOUT, PINGS_AT_ONCE
from partway.gateway.fleet.platform_interface import PING
from partway.gateway.limits import CONTAINER_CONNECT_TIMEOUT, CONTAINER_TLS_TIMEOUT
from partway.gateway.network.dialling import (
    Address,
    OutOfDescriptors,
    Silent,
    Unreachable,
    ip_family,
    reach,
)
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit
from partway.log_lines import LogLine

log = logging.getLogger("partway.fleet")

_METHOD_NOT_ALLOWED: Final = 405


async def ping(
    address: Address,
    clock: Clock,
    tls: ssl.SSLContext | None = None,
    *,
    timeout: float = PING_TIMEOUT,
    connect_timeout: float = CONTAINER_CONNECT_TIMEOUT,
    route: str = PING,
) -> str | None:
    """Ask a container for ``/ping``, by GET or, if GET is not allowed, by POST (clause 1.1-2).

    Each ping opens a connection of its own: a ready container accepts connections in time. There
    may be many pings a second, so a ping to an IP address without TLS uses a bare socket. All
    launched containers have such an address.

    Args:
        address: the container's.
        clock: measures the time.
        tls: the client's side of TLS; None for cleartext.
        timeout: seconds for the answer. POST has what GET leaves of this time.
        connect_timeout: seconds for the connection to be accepted.
        route: the path to ask for.

    Returns:
        None if the answer's status was 200, else what was wrong.

    Raises:
        OutOfDescriptors: this process or its machine has no file descriptor left, so the ping says
            nothing about the container.
    """
    ends = clock.time() + timeout
    try:
        status = await _ask("GET", route, address, clock, tls, timeout, connect_timeout)
        if status == _METHOD_NOT_ALLOWED:
            left = max(0.0, ends - clock.time())
            status = await _ask("POST", route, address, clock, tls, left, connect_timeout)
    except OutOfDescriptors:
        raise
    except Silent as error:
        return Silence(error)
    except Unreachable as error:
        return str(error)
    except NoAnswer as error:
        return f"{route} was not answered with valid HTTP: {error}"
    except TimeoutError:
        return f"{route} was not answered within {timeout:g} s"
    return None if status == 200 else BadStatus(f"{route} was answered with status {status}")


async def ping_place(place: Place, clock: Clock, timeout: float = PING_TIMEOUT) -> str | None:
    """Ask the container of an instance for ``/ping``, with TLS where its place has it.

    Returns:
        None if the answer's status was 200, else what was wrong.

    Raises:
        OutOfDescriptors: as for :func:`ping`.
    """
    tls = None if place.tls is None else place.tls.context()
    limit, route = place.policy.connect_timeout, place.surface.health
    return await ping(
        place.container, clock, tls, timeout=timeout, connect_timeout=limit, route=route
    )


async def _ask(
    method: str,
    route: str,
    address: Address,
    clock: Clock,
    tls: ssl.SSLContext | None,
    timeout: float,
    connect_timeout: float,
) -> int:
    """Return the status of the answer; the body is not read, and the connection is closed.

    Raises:
        TimeoutError: the answer did not come in time.
        Unreachable: there is no connection.
        NoAnswer: the answer is not valid HTTP.
    """
    length = "Content-Length: 0\r\n" if method == "POST" else ""
    head = f"{method} {route} HTTP/1.1\r\nHost: {address}\r\n{length}Connection: close\r\n\r\n"
    request = head.encode("ascii")
    family = ip_family(address.host) if tls is None else None
    if family is not None:
        return await ask_by_socket(
            family, address, request, clock, timeout=timeout, connect_timeout=connect_timeout
        )
    async with time_limit(clock, timeout):
        transport, hearing = await reach(
            address, _Hearing, timeout=connect_timeout, tls=tls, tls_timeout=CONTAINER_TLS_TIMEOUT
        )
        try:
            transport.write(request)
            status = await hearing.status
        finally:
            transport.abort()
    if isinstance(status, NoAnswer):
        raise status
    return status


class _Hearing(asyncio.Protocol):
    """A connection that waits for one answer.

    Attributes:
        status: the answer's status, or what was wrong. An error is a result here, since an
            exception of a future that is never awaited would be logged.
    """

    def __init__(self) -> None:
        self.status: asyncio.Future[int | NoAnswer] = asyncio.get_running_loop().create_future()
        self._answer = PingAnswer()

    def data_received(self, data: bytes) -> None:
        if self.status.done():
            return
        try:
            status = self._answer.take(data)
        except NoAnswer as error:
            self.status.set_result(error)
        else:
            if status is not None:
                self.status.set_result(status)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.status.done():
            self.status.set_result(cut(exc))


async def tell_which_answer(endpoints: Iterable[Endpoint], clock: Clock) -> None:
    """Log once for each endpoint whether its container answers, and what was wrong if not.

    A container may come later, so the log line is for the operator and nothing depends on it.
    """
    turns = asyncio.Semaphore(PINGS_AT_ONCE)

    async def tell(place: Place) -> None:
        whose = {"endpoint": place.endpoint, "container": place.url}
        async with turns:
            try:
                trouble = await ping_place(place, clock)
            except OutOfDescriptors as error:
                log.warning(LogLine("endpoint was not pinged", **whose, reason=str(error)))
                return
            except Exception:  # an unforeseen error must not suppress the other endpoints' lines
                log.exception(LogLine("endpoint was not pinged", **whose))
                return
        if trouble is None:
            log.info(LogLine("endpoint answers", **whose))
        else:
            log.warning(LogLine("endpoint does not answer", **whose, reason=trouble))

    async with asyncio.TaskGroup() as asking:
        for endpoint in endpoints:
            for place in places(endpoint):
                asking.create_task(tell(place))
