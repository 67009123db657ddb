"""Asking containers for ``/ping``: whether one is ready, and which endpoints' are at the start."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import ssl
from collections.abc import Iterable
from typing import Final

from partway.gateway.clock import Clock
from partway.gateway.dialling import Address, Unreachable, reach
from partway.gateway.fleet.endpoints import Endpoint, Place, places
from partway.gateway.fleet.limits import PING_TIMEOUT, PINGS_AT_ONCE
from partway.gateway.limits import CONTAINER_CONNECT_TIMEOUT, CONTAINER_TLS_TIMEOUT
from partway.gateway.waiting import time_limit
from partway.log_lines import LogLine
from partway.protocol.limits import KIB

log = logging.getLogger("partway.fleet")

_METHOD_NOT_ALLOWED: Final = 405

#: An answer's first line (RFC 9112 §4).
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-9][0-9][0-9])(?: |\r?$)")
#: Of an answer so much is looked at.
_MAX_HEAD: Final = 16 * KIB


async def ping(
    address: Address,
    clock: Clock,
    tls: ssl.SSLContext | None = None,
    *,
    timeout: float = PING_TIMEOUT,
    connect_timeout: float = CONTAINER_CONNECT_TIMEOUT,
) -> str | None:
    """Ask a container for ``/ping``, by GET or, where that is not allowed, by POST (clause 1.1-2).

    Each ping is a connection of its own: to accept one in time is part of being ready. It costs a
    third of what it does by aiohttp's client, and there may be many a second.

    Args:
        address: the container's.
        clock: measures the time of each of the two.
        tls: the client's side of TLS; None for cleartext.
        timeout: seconds for each of the two.
        connect_timeout: seconds for the connection to be accepted.

    Returns:
        None if the answer's status was 200, else what was wrong.
    """
    try:
        status = await _ask("GET", address, clock, tls, timeout, connect_timeout)
        if status == _METHOD_NOT_ALLOWED:
            status = await _ask("POST", address, clock, tls, timeout, connect_timeout)
    except Unreachable as error:
        return str(error)
    except TimeoutError:
        return f"/ping was not answered within {timeout:g} s"
    return None if status == 200 else f"/ping was answered with status {status}"


async def ping_place(place: Place, clock: Clock, timeout: float = PING_TIMEOUT) -> str | None:
    """Ask the container of an instance for ``/ping``, with TLS where that is how it is reached.

    Args:
        place: where the instance is, and within which time its connections are accepted.
        clock: measures the time of each of the two questions.
        timeout: seconds for each of them.

    Returns:
        None if the answer's status was 200, else what was wrong.
    """
    tls = None if place.tls is None else place.tls.context()
    limit = place.policy.connect_timeout
    return await ping(place.container, clock, tls, timeout=timeout, connect_timeout=limit)


async def _ask(
    method: str,
    address: Address,
    clock: Clock,
    tls: ssl.SSLContext | None,
    timeout: float,
    connect_timeout: float,
) -> int:
    """The status of an answer; its body is not read, and the connection ends with it.

    Raises:
        TimeoutError: it did not come in time.
        Unreachable: there is no connection, or no answer of HTTP's.
    """
    async with time_limit(clock, timeout):
        transport, answer = await reach(
            address,
            _Answer,
            timeout=connect_timeout,
            tls=tls,
            tls_timeout=CONTAINER_TLS_TIMEOUT,
        )
        try:
            length = "Content-Length: 0\r\n" if method == "POST" else ""
            head = (
                f"{method} /ping HTTP/1.1\r\nHost: {address}\r\n{length}Connection: close\r\n\r\n"
            )
            transport.write(head.encode("ascii"))
            status = await answer.status
            if isinstance(status, str):
                raise Unreachable(f"/ping was not answered with valid HTTP: {status}")
            return status
        finally:
            transport.abort()


class _Answer(asyncio.Protocol):
    """The status line of an answer; interim ones are passed over (RFC 9110 §15.2).

    Attributes:
        status: the status, or what was wrong: no error, for whoever asked may have left.
    """

    def __init__(self) -> None:
        self.status: asyncio.Future[int | str] = asyncio.get_running_loop().create_future()
        self._head = b""
        self._taken = 0

    def data_received(self, data: bytes) -> None:
        if self.status.done():
            return
        # No more is looked at: so interim answers without end come to an end too.
        self._head += data[: _MAX_HEAD - self._taken]
        self._taken += len(data)
        while not self.status.done():
            line, is_whole, _ = self._head.partition(b"\n")
            if not is_whole and self._taken < _MAX_HEAD:
                return
            found = _STATUS_LINE.match(line)
            if found is None or not is_whole:
                self._failed("it does not begin as an answer of HTTP/1.1 does")
            elif found[1][:1] != b"1":
                self.status.set_result(int(found[1]))
            else:
                _, is_whole, rest = self._head.partition(b"\r\n\r\n")
                if not is_whole:
                    if self._taken >= _MAX_HEAD:
                        self._failed("an interim answer has no end")
                    return
                self._head = rest

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None:
            self._failed("the connection was closed before it")
        else:
            number = None if isinstance(exc, ssl.SSLError) else getattr(exc, "errno", None)
            self._failed(os.strerror(number) if number else str(exc))

    def _failed(self, why: str) -> None:
        if not self.status.done():
            self.status.set_result(why)


async def tell_which_answer(endpoints: Iterable[Endpoint], clock: Clock) -> None:
    """Log of each endpoint whether its container answers, once, with what was wrong if not.

    A container may come later, so this is for the operator to know and for nothing else.

    Args:
        endpoints: those that there are.
        clock: measures the time of each ping.
    """
    turns = asyncio.Semaphore(PINGS_AT_ONCE)

    async def tell(place: Place) -> None:
        whose = {"endpoint": place.endpoint, "container": place.url}
        async with turns:
            try:
                trouble = await ping_place(place, clock)
            except Exception:  # one that nobody has thought of is not to silence the others' lines
                log.exception(LogLine("endpoint was not asked", **whose))
                return
        if trouble is None:
            log.info(LogLine("endpoint answers", **whose))
        else:
            log.warning(LogLine("endpoint does not answer", **whose, reason=trouble))

    async with asyncio.TaskGroup() as asking:
        for endpoint in endpoints:
            for place in places(endpoint):
                asking.create_task(tell(place))
