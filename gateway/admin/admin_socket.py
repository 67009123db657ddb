"""The admin socket: HTTP over a Unix socket of the data directory, for the gateway's own user.

:mod:`partway.gateway.admin.operations` answers the requests.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from partway.gateway.http.error_dialects import aws_rest_json
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.http1.server import Http1Server
from partway.gateway.limits import ADMIN_CLOSE_TIMEOUT, MAX_ADMIN_CONNECTIONS
from partway.gateway.storage.data_directory import socket_name
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit
from partway.protocol.errors import AccessDenied, ApiError, ServiceUnavailable
from partway.protocol.http1.response import response_head
from partway.protocol.limits import STALL_TIMEOUT

if TYPE_CHECKING:
    from partway.gateway.admin.operations import AdminOperations


class AdminSocket:
    """The socket, which listens from :meth:`start` to :meth:`aclose`.

    Args:
        path: the path of the socket, in a data directory that this process owns.
        operations: makes the operations at the first request.
        clock: measures how long :meth:`aclose` takes.
    """

    def __init__(self, path: Path, operations: Callable[[], AdminOperations], clock: Clock) -> None:
        self._path = path
        self._make_operations = operations
        self._clock = clock
        self._operations: AdminOperations | None = None
        self._closing = False
        self._http = Http1Server(self._answer, taken_within=STALL_TIMEOUT)
        self._listening: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen, unless the socket listens already.

        Raises:
            OSError: the socket cannot be made.
        """
        if self._listening is not None:
            return
        # A killed gateway leaves its socket behind. No other process owns the directory now.
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        try:
            with socket_name(self._path) as name:
                listener.bind(name)
            # The socket has the umask's mode until here. _check_user checks each client too.
            self._path.chmod(0o600)
            loop = asyncio.get_running_loop()
            self._listening = await loop.create_unix_server(self._connection, sock=listener)
        except BaseException:
            listener.close()
            raise

    async def aclose(self) -> None:
        """Stop listening and end the operations; requests get ADMIN_CLOSE_TIMEOUT to end."""
        self._closing = True
        if self._listening is not None:
            self._listening.close()
            self._path.unlink(missing_ok=True)
        if self._operations is not None:
            await self._operations.aclose()
        await self._http.shutdown(ADMIN_CLOSE_TIMEOUT)
        if self._listening is not None:
            with suppress(TimeoutError):
                async with time_limit(self._clock, ADMIN_CLOSE_TIMEOUT):
                    await self._listening.wait_closed()

    def _connection(self) -> asyncio.Protocol:
        return _Arrival(self)

    def admitted(self, connection: socket.socket | None) -> asyncio.Protocol:
        """Return the protocol of an accepted connection.

        Raises:
            AccessDenied: the client is another user.
            ServiceUnavailable: too many connections are open, or the gateway stops.
        """
        _check_user(connection)
        # A connection that is being accepted may arrive after the socket was closed.
        if self._closing or self._http.open_connections >= MAX_ADMIN_CONNECTIONS:
            raise ServiceUnavailable(
                f"{MAX_ADMIN_CONNECTIONS} connections with the admin socket are open already; try "
                "again when one has ended"
            )
        return self._http.protocol()

    async def _answer(self, exchange: Exchange) -> None:
        if self._operations is None:
            self._operations = self._make_operations()
        await self._operations(exchange)


class _Arrival(asyncio.Protocol):
    """An accepted connection, which is handed on or refused with a reason."""

    def __init__(self, admin: AdminSocket) -> None:
        self._admin = admin

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No isinstance check here: uvloop's transports are not subclasses of asyncio's.
        accepted = cast("asyncio.Transport", transport)
        try:
            protocol = self._admin.admitted(accepted.get_extra_info("socket"))
        except ApiError as error:
            answer = aws_rest_json(error)
            length = f"Content-Length: {len(answer.body)}\r\n"
            head = response_head(
                *("1.1", answer.status, answer.headers, length), keeps=False, now=time.time()
            )
            accepted.write(head + answer.body)
            accepted.close()
        else:
            accepted.set_protocol(protocol)
            protocol.connection_made(accepted)


def _check_user(connection: socket.socket | None) -> None:
    """Refuse a client that is neither this process's user nor root.

    Where the system does not name the client's user, only the socket's mode keeps others out.

    Raises:
        AccessDenied: the client is another user.
    """
    if connection is None or not hasattr(socket, "SO_PEERCRED"):
        return
    credentials = struct.Struct("3i")  # process, user, group: struct ucred of unix(7)
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size)
    _, user, _ = credentials.unpack(data)
    if user not in (0, os.geteuid()):
        raise AccessDenied("only the gateway's own user may use the admin socket")
