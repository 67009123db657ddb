"""The operations of the admin socket, which serves this user's commands.

- ``GET /endpoints``: the state of the fleet, as JSON.
- ``POST /endpoints/NAME/restart``: replaces the endpoint's instances by new ones.
- ``GET /endpoints/NAME/logs``: the output of the instances, as text.
- ``PUT``, ``GET`` and ``DELETE /deployments/NAME``: an endpoint with its model and configuration.
- ``GET /store``: a backup of the store, as one file.

An error has the API's status and body (clause 4-1).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import parse_qsl, unquote

from partway.gateway.fleet.endpoint import check_name
from partway.gateway.fleet.states import OVER
from partway.gateway.fleet.status import EndpointStatus
from partway.gateway.fleet.status_json import to_json
from partway.gateway.http.exchange import Exchange
from partway.gateway.limits import MAX_LOG_READERS
from partway.gateway.storage.store.store import BackupError, ReadBackup, StoreError
from partway.gateway.timing.clock import Clock
from partway.log_lines import LogLine
from partway.protocol.errors import (
    ApiError,
    InputValidationError,
    InternalServerError,
    NotFound,
    ServiceUnavailable,
)
from partway.protocol.http.head_limits import check_head

log = logging.getLogger("partway.admin")

_JSON: Final = {"Content-Type": "application/json"}

#: Endpoints that are named to whoever asks for one that is not there.
_NAMED: Final = 20


#: Answers a request for the deployment of the endpoint of this name.
AnswerOfDeployments = Callable[[Exchange, str], Awaitable[None]]


class AdministeredFleet(Protocol):
    """The parts of a fleet that the admin socket uses."""

    def describe(self) -> tuple[EndpointStatus, ...]: ...

    async def restart(self, name: str) -> None:
        """Start new instances of an endpoint, and stop the old ones once the new ones serve.

        Raises:
            ApiError: there is no such endpoint, or the new instances do not come into service. The
                old instances then go on serving.
        """


class AdminOperations:
    """Answers requests over the socket, until :meth:`aclose`.

    Args:
        fleet: the fleet to describe and to restart.
        deployments: answers a request for the deployment of the endpoint with a name; None where
            the API ``control`` is switched off.
        logs: the folder with the output of instances.
        backup: makes a backup of the store; None where that API is off.
        clock: measures the pauses between two reads of a followed log.
    """

    def __init__(
        self,
        fleet: AdministeredFleet,
        deployments: AnswerOfDeployments | None,
        logs: Path,
        backup: Callable[[], AbstractAsyncContextManager[ReadBackup]] | None,
        clock: Clock,
    ) -> None:
        self._fleet = fleet
        self._deployments = deployments
        self._logs = logs
        self._backup = backup
        self._is_backing_up = False
        self._clock = clock
        self._closing = asyncio.Event()
        self._readers = 0
        self._restarts: dict[str, asyncio.Task[None]] = {}

    async def aclose(self) -> None:
        """Stop: followed logs are read to their end once more, and restarts are cancelled."""
        self._closing.set()
        for restart in self._restarts.values():
            restart.cancel()
        if self._restarts:
            await asyncio.wait(self._restarts.values())

    async def __call__(self, exchange: Exchange) -> None:
        """Answer a request; an unexpected exception is logged and answered with 500."""
        try:
            check_head(exchange)
            await self._operate(exchange)
        except ApiError as error:
            error.message = error.for_operator  # this client may read the log too
            _refuse(exchange, error)
        except ConnectionError:
            pass  # the client has left
        except Exception:
            log.exception(LogLine("admin socket: an internal error", path=exchange.path))
            _refuse(
                exchange, InternalServerError("an internal error; the gateway's log describes it")
            )
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
                    f"{exchange.method} {unquote(exchange.path)} was requested; it must be "
                    "GET /endpoints, POST /endpoints/NAME/restart, GET /endpoints/NAME/logs, "
                    "GET, PUT or DELETE /deployments/NAME, or GET /store"
                )

    async def _deploy(self, exchange: Exchange, name: str) -> None:
        check_name(name)
        if self._deployments is None:
            raise _control_is_off("partway deploy and delete")
        await self._deployments(exchange, name)

    def _found(self, name: str) -> str:
        """Return the name if there is such an endpoint.

        Raises:
            InputValidationError: there is no such endpoint.
        """
        check_name(name)
        names = [endpoint.name for endpoint in self._fleet.describe()]
        if name not in names:
            raise InputValidationError(
                f"there is no endpoint {name!r}; there {_listed(names)}", "EndpointNotFound"
            )
        return name

    async def _restart(self, name: str) -> None:
        """Restart an endpoint; requests that come during a restart wait for that restart.

        A restart goes on after its caller has left.
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
        error = restart.exception()  # read here, since all callers may have left
        if error is not None:
            log.warning(LogLine("restart failed", endpoint=name, reason=str(error)))

    async def _send_backup(self, exchange: Exchange) -> None:
        """Send a backup in pieces; one at a time, since each takes as much disk as the store.

        Raises:
            ServiceUnavailable: another backup is being sent.
            InternalServerError: the store cannot be copied, or the copy cannot be read.
        """
        if self._backup is None:
            raise _control_is_off("partway backup")
        if self._is_backing_up:
            raise ServiceUnavailable("a backup is being written; try again when it has ended")
        self._is_backing_up = True
        try:
            async with self._backup() as read:
                piece = await read()
                await exchange.begin(200, {"Content-Type": "application/vnd.sqlite3"})
                while piece:
                    await exchange.write(piece)
                    piece = await read()
                await exchange.end()
        except (StoreError, BackupError) as error:
            log.warning(LogLine("the backup failed", reason=str(error)))
            raise InternalServerError(str(error)) from error
        finally:
            self._is_backing_up = False

    async def _send_logs(self, name: str, exchange: Exchange) -> None:
        """Send lines at the reader's pace; a reader that takes nothing for long is disconnected.

        The connection is cut, so that the reader does not take this for the log's end.
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


def _refuse(exchange: Exchange, error: ApiError) -> None:
    """Answer with an error; if the answer has begun, break it off."""
    if exchange.answered:
        exchange.abort()
    else:
        exchange.fail(error)


def _control_is_off(commands: str) -> ServiceUnavailable:
    return ServiceUnavailable(
        f"the API 'control' is switched off in this gateway, and {commands} cannot work without "
        "it; add it to the gateway's setting apis"
    )


def _instances(endpoints: Iterable[EndpointStatus], name: str) -> dict[str, bool] | None:
    """Map the ids of an endpoint's instances to whether they live; None if there is no endpoint."""
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
