"""The API of asynchronous requests in a gateway."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from partway.gateway.apis.asynchronous.invoke_async import InvokeEndpointAsync, taken_away
from partway.gateway.apis.asynchronous.output_permissions import OutputPermissions
from partway.gateway.apis.asynchronous.service import AsyncService
from partway.gateway.apis.control.api import ControlApi
from partway.gateway.apis.requests_service import RequestsService
from partway.gateway.http.routes import Route
from partway.gateway.service import Service
from partway.gateway.storage.disk_recovery import ASYNCHRONOUS, DiskStep

if TYPE_CHECKING:
    from partway.gateway.gateway import Gateway


class AsynchronousApi(Service):
    """InvokeEndpointAsync; it refuses each request if the gateway has no data directory."""

    def __init__(self, gateway: Gateway) -> None:
        control = gateway.service(ControlApi)
        keeper = control.endpoint_keeper
        self._disk_recovery = gateway.disk_recovery
        self._resources = control.resources
        self._requests: AsyncService | None = None
        if gateway.data is not None:
            self._requests = AsyncService(
                gateway.settings,
                gateway.data.requests,
                gateway.store,
                gateway.service(RequestsService).invocations,
                keeper.async_config_of,
                gateway.router.instances_of,
                lambda: keeper.planning.local_roots,
                control.results,
                partial(taken_away, gateway.authenticator, gateway.arns),
                OutputPermissions(gateway.authenticator.may, gateway.arns),
                gateway.streams.metrics.registry,
                gateway.clock,
                gateway.wall_clock,
            )
        self._operation = InvokeEndpointAsync(
            None if self._requests is None else self._requests.worker,
            keeper.async_config_of,
            lambda name: name in gateway.router.table,
            keeper.planning.allows_path,
            gateway.arns,
            gateway.wall_clock,
        )

    @property
    def routes(self) -> tuple[Route, ...]:
        return self._operation.routes

    async def start(self) -> None:
        """Resume the requests of an earlier gateway, unless the disk refuses."""
        if self._requests is not None:
            await self._disk_recovery.attempt(DiskStep(ASYNCHRONOUS, self._start))

    async def _start(self) -> None:
        assert self._requests is not None, "else there is no such step"
        self._resources.check_read()  # a request would fail if its endpoint were not read yet
        await self._requests.start()

    def keep_only(self, endpoints: Collection[str]) -> None:
        if self._requests is not None:
            self._requests.keep_only(endpoints)

    def hasten(self) -> None:
        if self._requests is not None:
            self._requests.hasten()

    async def drain(self, grace: float) -> None:
        """Accept no new requests; requests that have not ended in time stay in the store."""
        if self._requests is not None:
            await self._requests.drain(grace)


def install(gateway: Gateway) -> None:
    gateway.service(AsynchronousApi)
