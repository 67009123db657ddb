"""A ping on a bare socket, without a transport: there may be many pings a second."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import Final

from partway.gateway.fleet.health.ping_answer import NoAnswer, PingAnswer, cut
from partway.gateway.network.dialling import Address, not_accepted, not_connected
from partway.gateway.network.silent_hosts import SILENCE, silent_hosts
from partway.gateway.timing.clock import Clock
from partway.protocol.limits import KIB

#: Most answers fit into one read of this size, so that the connection ends without a reset.
_READ: Final = 64 * KIB

#: The errors of a send before the connection exists: Linux's and BSD's.
_NOT_YET: Final = frozenset({errno.EAGAIN, errno.ENOTCONN})


async def ask_by_socket(
    family: socket.AddressFamily,
    address: Address,
    request: bytes,
    clock: Clock,
    *,
    timeout: float,
    connect_timeout: float,
) -> int:
    """Ask the server at an IP address; the answer's body is not read.

    Args:
        family: the family of the address.
        address: an address whose host is an IP address.
        request: the whole request, a few hundred bytes at most.
        clock: measures the time.
        timeout: seconds for connection, request and answer together.
        connect_timeout: seconds for the connection to be accepted.

    Returns:
        The status of the answer.

    Raises:
        TimeoutError: the answer did not come in time.
        OutOfDescriptors: this process or its machine has no file descriptor left.
        Unreachable: there is no connection.
        NoAnswer: the answer is not valid HTTP.
    """
    try:
        connection = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    except OSError as error:
        raise not_connected(error) from None
    question = _Question(connection, address, request)
    timer = clock.call_later(timeout, question.give_up)
    try:
        question.begin(connect_timeout)
        status = await question.status
    finally:
        timer.cancel()
        question.close()
    if isinstance(status, Exception):
        raise status
    return status


class _Question:
    """A connection that carries one request and its answer.

    A busy loop may run a timer before it has looked at the socket. So each timeout looks at the
    socket once more before it fails the ping.

    Attributes:
        status: the answer's status, or what was wrong. An error is a result here, since an
            exception of a future that is never awaited would be logged.
    """

    def __init__(self, connection: socket.socket, address: Address, request: bytes) -> None:
        self._address = address
        self._loop = asyncio.get_running_loop()
        self.status: asyncio.Future[int | Exception] = self._loop.create_future()
        self._socket = connection
        self._request = request
        self._answer = PingAnswer()
        self._asked = False
        self._accepting: asyncio.TimerHandle | None = None

    def begin(self, connect_timeout: float) -> None:
        """Connect, and send the request as soon as possible: on this machine that is at once."""
        number = self._socket.connect_ex((self._address.host, self._address.port))
        if number not in (0, errno.EINPROGRESS):
            self._no_connection(OSError(number, os.strerror(number)))
            return
        self._ask()
        if not self._asked and not self.status.done():
            self._loop.add_writer(self._socket, self._ask)
            self._accepting = self._loop.call_later(
                connect_timeout, self._not_accepted, connect_timeout
            )

    def give_up(self) -> None:
        """Fail with TimeoutError, unless the answer is already there."""
        if self._asked:
            self._read()
        self._failed(TimeoutError())

    def close(self) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            self._loop.remove_writer(self._socket)
        if self._asked:
            self._loop.remove_reader(self._socket)
        self._socket.close()

    def _ask(self) -> None:
        try:
            self._socket.send(self._request)
        except OSError as error:
            if error.errno not in _NOT_YET:
                self._no_connection(error)
            return
        if self._accepting is not None:
            self._accepting.cancel()
            self._accepting = None
            self._loop.remove_writer(self._socket)
        self._asked = True
        self._loop.add_reader(self._socket, self._read)

    def _not_accepted(self, seconds: float) -> None:
        self._ask()
        if not (self._asked or self.status.done()):
            silent_hosts.suspect(self._address.host, self._address.port)
            self._failed(not_accepted(seconds))

    def _no_connection(self, error: OSError) -> None:
        if error.errno in SILENCE:
            silent_hosts.suspect(self._address.host, self._address.port)
        self._failed(not_connected(error))

    def _read(self) -> None:
        if self.status.done():
            return
        try:
            data = self._socket.recv(_READ)
            status = self._answer.take(data) if data else None
        except BlockingIOError:
            return
        except OSError as error:
            self._failed(cut(error))
        except NoAnswer as error:
            self._failed(error)
        else:
            if not data:
                self._failed(cut(None))
            elif status is not None:
                self.status.set_result(status)

    def _failed(self, error: Exception) -> None:
        if not self.status.done():
            self.status.set_result(error)
