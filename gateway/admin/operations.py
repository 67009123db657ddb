"""The admin socket: how this user's commands ask a gateway that runs.

HTTP over a Unix socket of the data directory, for the user whose gateway it is:

- ``GET /endpoints``: how the fleet is, as JSON;
- ``POST /endpoints/NAME/restart``: new instances in the place of those that are there;
- ``GET /endpoints/NAME/logs``: what instances have printed, as text;
- ``PUT``, ``GET`` and ``DELETE /deployments/NAME``: an endpoint with its model and configuration;
- ``GET /store``: a backup of what was created, as a file of its own.

An error has the status and the body of the API's (clause 4-1).
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol, cast
from urllib.parse import parse_qsl, unquote

from partway.gateway.fleet.endpoint import check_name
from partway.gateway.fleet.states import OVER
from partway.gateway.fleet.status import EndpointStatus
from partway.gateway.fleet.status_json import to_json
from partway.gateway.http.error_dialects import aws_rest_json
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.http1.server import Http1Server
from partway.gateway.limits import (
    ADMIN_CLOSE_TIMEOUT,
    MAX_ADMIN_CONNECTIONS,
    MAX_LOG_READERS,
)
from partway.gateway.storage.data_directory import socket_name
from partway.gateway.storage.store.store import BackupError, StoreError
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit
from partway.log_lines import LogLine
from partway.protocol.errors import (
    AccessDenied,
    ApiError,
    InputValidationError,
    InternalServerError,
    NotFound,
    ServiceUnavailable,
)
from partway.protocol.http.head_limits import check_head
from partway.protocol.http1.response import response_head
from partway.protocol.limits import STALL_TIMEOUT

log = logging.getLogger("partway.admin")

_JSON: Final = {"Content-Type": "application/json"}

#: Bytes of a backup that are sent at once.
_BACKUP_PIECE: Final = 1 << 20

#: Endpoints that are named to whoever asks for one that is not there.
_NAMED: Final = 20


#: Answers a request for the deployment of the endpoint of this name.
AnswerOfDeployments = Callable[[Exchange, str], Awaitable[None]]


class AdministeredFleet(Protocol):
    """What of a fleet can be asked and told by the admin socket."""

    def describe(self) -> tuple[EndpointStatus, ...]:
        """Say how each endpoint is."""

    async def restart(self, name: str) -> None:
        """Start new instances of an endpoint, and stop the old ones when the new ones serve.

        Raises:
            ApiError: there is no such endpoint, or the new instances do not come into service; the
                old ones serve on then.
        """


class AdminSocket:
    """The socket, from :meth:`start` to :meth:`aclose`.

    Args:
        path: the socket's, in a data directory that this process owns.
        fleet: what is asked.
        deployments: answers a request for the deployment of an endpoint, which it is given by
            name; None where the API ``control`` is switched off.
        logs: the folder of what the fleet's instances print.
        backup: returns all of the store as the bytes of a file; None where that API is off.
        clock: measures how often a log that is followed is looked at, and the end.
    """

    def __init__(
        self,
        path: Path,
        fleet: AdministeredFleet,
        deployments: AnswerOfDeployments | None,
        logs: Path,
        backup: Callable[[], Awaitable[bytes]] | None,
        clock: Clock,
    ) -> None:
        self._path = path
        self._fleet = fleet
        self._deployments = deployments
        self._logs = logs
        self._backup = backup
        self._is_backing_up = False
        self._clock = clock
        self._closing = asyncio.Event()
        self._readers = 0
        self._restarts: dict[str, asyncio.Task[None]] = {}
        self._http = Http1Server(self._answer, taken_within=STALL_TIMEOUT)
        self._listening: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen, unless it listens already.

        Raises:
            OSError: the socket cannot be made.
        """
        if self._listening is not None:
            return
        # What is left of a gateway that was killed: nobody else owns the directory now.
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        try:
            with socket_name(self._path) as name:
                listener.bind(name)
            # Until here the mode is the umask's, and who connects is looked at all the same.
            self._path.chmod(0o600)
            loop = asyncio.get_running_loop()
            self._listening = await loop.create_unix_server(self._connection, sock=listener)
        except BaseException:
            listener.close()
            raise

    async def aclose(self) -> None:
        """End: logs that are followed are read to their end once more, restarts are broken off."""
        self._closing.set()
        if self._listening is not None:
            self._listening.close()
            self._path.unlink(missing_ok=True)
        for restart in self._restarts.values():
            restart.cancel()
        if self._restarts:
            await asyncio.wait(self._restarts.values())
        await self._http.shutdown(ADMIN_CLOSE_TIMEOUT)
        if self._listening is not None:
            with suppress(TimeoutError):
                async with time_limit(self._clock, ADMIN_CLOSE_TIMEOUT):
                    await self._listening.wait_closed()

    def _connection(self) -> asyncio.Protocol:
        return _Arrival(self)

    def admitted(self, connection: socket.socket | None) -> asyncio.Protocol:
        """Say who speaks on a connection that has been accepted.

        Raises:
            AccessDenied: it is another user's.
            ServiceUnavailable: there are as many as there may be, or the gateway stops.
        """
        _check_user(connection)
        # One that was just being accepted comes after the socket's end.
        if self._closing.is_set() or self._http.open_connections >= MAX_ADMIN_CONNECTIONS:
            raise ServiceUnavailable(
                f"{MAX_ADMIN_CONNECTIONS} connections with the admin socket are open; try again "
                "when one has ended"
            )
        return self._http.protocol()

    # --- What is asked ---------------------------------------------------------------------------

    async def _answer(self, exchange: Exchange) -> None:
        try:
            check_head(exchange)
            await self._operate(exchange)
        except ApiError as error:
            error.message = error.for_operator  # who may ask here may read the log too
            _refuse(exchange, error)
        except ConnectionError:
            pass  # whoever has asked has left
        except Exception:
            log.exception(LogLine("admin socket: a fault of the gateway's", path=exchange.path))
            _refuse(exchange, InternalServerError("the gateway's log says what went wrong"))
        finally:
            exchange.operation_over()

    async def _operate(self, exchange: Exchange) -> None:
        match exchange.method, [unquote(part) for part in exchange.path.split("/")[1:]]:
            case "GET", ["endpoints"]:
                exchange.respond(200, to_json(self._fleet.describe()).encode(), _JSON)
            case "POST", ["endpoints", name, "restart"]:
                await self._restart(self._found(name))
                exchange.respond(204)
            case "GET", ["endpoints", name, "logs"]:
                await self._send_logs(self._found(name), exchange)
            case "GET", ["store"]:
                await self._send_backup(exchange)
            case _, ["deployments", name]:
                await self._deploy(exchange, name)
            case _:
                raise NotFound(
                    f"{exchange.method} {unquote(exchange.path)} was asked; it must be "
                    "GET /endpoints, POST /endpoints/NAME/restart, GET /endpoints/NAME/logs, "
                    "GET, PUT or DELETE /deployments/NAME, or GET /store"
                )

    async def _deploy(self, exchange: Exchange, name: str) -> None:
        check_name(name)
        if self._deployments is None:
            raise _control_is_off("partway deploy and delete")
        await self._deployments(exchange, name)

    def _found(self, name: str) -> str:
        """The name of an endpoint that is there.

        Raises:
            InputValidationError: there is none of this name.
        """
        check_name(name)
        names = [endpoint.name for endpoint in self._fleet.describe()]
        if name not in names:
            raise InputValidationError(
                f"there is no endpoint {name!r}; there {_listed(names)}", "EndpointNotFound"
            )
        return name

    async def _restart(self, name: str) -> None:
        """Restart an endpoint; who asks for one that is being restarted waits for the same.

        A restart that was begun goes on when its caller has left.
        """
        restart = self._restarts.get(name)
        if restart is None:
            restart = asyncio.create_task(self._fleet.restart(name), name=f"restart of {name}")
            self._restarts[name] = restart
            restart.add_done_callback(lambda done: self._restarted(name, done))
        try:
            await asyncio.shield(restart)
        except asyncio.CancelledError:
            if restart.cancelled():
                raise ServiceUnavailable("the gateway is stopping") from None
            raise

    def _restarted(self, name: str, restart: asyncio.Task[None]) -> None:
        del self._restarts[name]
        if restart.cancelled():
            return
        error = restart.exception()  # looked at here, for its callers may have left
        if error is not None:
            log.warning(LogLine("restart failed", endpoint=name, reason=str(error)))

    async def _send_backup(self, exchange: Exchange) -> None:
        """Send a backup in pieces; one at a time, for each is as large as the store.

        Raises:
            ServiceUnavailable: another one is being sent.
            InternalServerError: the store cannot be read.
        """
        if self._backup is None:
            raise _control_is_off("partway backup")
        if self._is_backing_up:
            raise ServiceUnavailable("a backup is being written; try again when it has ended")
        self._is_backing_up = True
        try:
            try:
                data = memoryview(await self._backup())
            except (StoreError, BackupError) as error:
                raise InternalServerError(str(error)) from error
            await exchange.begin(200, {"Content-Type": "application/vnd.sqlite3"})
            for at in range(0, len(data), _BACKUP_PIECE):
                await exchange.write(bytes(data[at : at + _BACKUP_PIECE]))
            await exchange.end()
        finally:
            self._is_backing_up = False

    async def _send_logs(self, name: str, exchange: Exchange) -> None:
        """Send lines at the pace of whoever reads; one that takes nothing for long is let go.

        Its connection is cut then, so that this does not pass for the log's end.
        """
        from partway.gateway.admin.logs import LogsAsked, log_lines

        lines = log_lines(
            LogsAsked.read(name, dict(parse_qsl(exchange.query, keep_blank_values=True))),
            lambda: _instances(self._fleet.describe(), name),
            self._logs,
            self._clock,
            self._closing,
        )
        if self._readers >= MAX_LOG_READERS:
            raise ServiceUnavailable(
                f"{self._readers} logs are being read; try again when one has ended"
            )
        self._readers += 1
        try:
            await exchange.begin(200, {"Content-Type": "text/plain; charset=utf-8"})
            async for piece in lines:
                await exchange.write(piece)
            await exchange.end()
        finally:
            self._readers -= 1
            await lines.aclose()


class _Arrival(asyncio.Protocol):
    """A connection that was accepted: it is handed on, or told why not and closed."""

    def __init__(self, admin: AdminSocket) -> None:
        self._admin = admin

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked with isinstance: uvloop's transports derive from no class of asyncio's.
        accepted = cast("asyncio.Transport", transport)
        try:
            protocol = self._admin.admitted(accepted.get_extra_info("socket"))
        except ApiError as error:
            status, headers, body = aws_rest_json(error)
            length = f"Content-Length: {len(body)}\r\n"
            accepted.write(response_head("1.1", status, headers, length, keeps=False) + body)
            accepted.close()
        else:
            accepted.set_protocol(protocol)
            protocol.connection_made(accepted)


def _refuse(exchange: Exchange, error: ApiError) -> None:
    """Answer with an error, unless an answer has begun: that is broken off."""
    if exchange.answered:
        exchange.abort()
    else:
        exchange.fail(error)


def _control_is_off(commands: str) -> ServiceUnavailable:
    return ServiceUnavailable(
        f"the API 'control' is switched off in this gateway, and {commands} cannot work without "
        "it; the gateway's setting apis must name it"
    )


def _check_user(connection: socket.socket | None) -> None:
    """Refuse whoever is neither this process's user nor root.

    Where the system does not say who has connected, the socket's mode alone keeps others out.

    Raises:
        AccessDenied: it is somebody else.
    """
    if connection is None or not hasattr(socket, "SO_PEERCRED"):
        return
    credentials = struct.Struct("3i")  # process, user, group: struct ucred of unix(7)
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size)
    _, user, _ = credentials.unpack(data)
    if user not in (0, os.geteuid()):
        raise AccessDenied("the admin socket is for the gateway's own user")


def _instances(endpoints: Iterable[EndpointStatus], name: str) -> dict[str, bool] | None:
    """By the ids of an endpoint's instances, whether they live; None if there is no endpoint."""
    for endpoint in endpoints:
        if endpoint.name == name:
            of_all = (each for variant in endpoint.variants for each in variant.instances)
            return {
                container: each.state not in OVER
                for each in of_all
                for container in each.container_ids
            }
    return None


def _listed(names: list[str]) -> str:
    if not names:
        return "are none"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{'is' if len(names) == 1 else 'are'} {', '.join(names[:_NAMED])}{more}"
