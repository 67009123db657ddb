"""The operations of the admin socket, by which this user's commands ask a gateway that runs.

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
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import parse_qsl, unquote

from partway.gateway.fleet.endpoint import check_name
from partway.gateway.fleet.states import OVER
from partway.gateway.fleet.status import EndpointStatus
from partway.gateway.fleet.status_json import to_json
from partway.gateway.http.exchange import Exchange
from partway.gateway.limits import (
    MAX_LOG_READERS,
)
from partway.gateway.storage.store.store import BackupError, StoreError
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


class AdminOperations:
    """Answers what is asked over the socket, until :meth:`aclose`.

    Args:
        fleet: what is asked.
        deployments: answers a request for the deployment of an endpoint, which it is given by
            name; None where the API ``control`` is switched off.
        logs: the folder of what the fleet's instances print.
        backup: returns all of the store as the bytes of a file; None where that API is off.
        clock: measures how often a log that is followed is looked at.
    """

    def __init__(
        self,
        fleet: AdministeredFleet,
        deployments: AnswerOfDeployments | None,
        logs: Path,
        backup: Callable[[], Awaitable[bytes]] | None,
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
        """End: logs that are followed are read to their end once more, restarts are broken off."""
        self._closing.set()
        for restart in self._restarts.values():
            restart.cancel()
        if self._restarts:
            await asyncio.wait(self._restarts.values())

    async def __call__(self, exchange: Exchange) -> None:
        """Answer a request; a fault is logged and answered with 500."""
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
