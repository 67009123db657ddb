"""The API of the control plane in a gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING

from partway.gateway.apis.aws_json.protocol import TargetRoutes
from partway.gateway.apis.control.admin_deployments import answer_of_deployments
from partway.gateway.apis.control.all_endpoints import KnownEndpoints
from partway.gateway.apis.control.async_rules import AsyncRules
from partway.gateway.apis.control.catalogue import Catalogue
from partway.gateway.apis.control.control_plane import ControlPlane
from partway.gateway.apis.control.deployments import Deployments
from partway.gateway.apis.control.endpoint_reconciler import EndpointKeeper
from partway.gateway.apis.control.endpoints import EndpointOperations
from partway.gateway.apis.control.model_data_permission import ModelDataLeave
from partway.gateway.apis.control.resources import Resources
from partway.gateway.service import Service
from partway.gateway.storage.disk_recovery import CHANGES, CREATED, DiskStep
from partway.gateway.storage.places.local_roots import LocalRoots

if TYPE_CHECKING:
    from partway.gateway.gateway import Gateway
    from partway.gateway.settings.settings import Settings


class ControlApi(Service):
    """The operations on callers' resources, and the endpoints that callers have created.

    Attributes:
        at_read: called once the resources are read, before their endpoints run.
        at_run: called once the gateway listens and the resources are read.
    """

    def __init__(self, gateway: Gateway) -> None:
        settings, clock, wall_clock = gateway.settings, gateway.clock, gateway.wall_clock
        arns, kept_out = gateway.arns, gateway.kept_out
        self._gateway = gateway
        self.resources = Resources(gateway.store, clock)
        self.catalogue = Catalogue(self.resources, arns, wall_clock)
        self.endpoint_keeper = EndpointKeeper(
            *(self.resources, gateway.fleet, settings, clock, wall_clock), kept_out=kept_out
        )
        self.model_data_leave = ModelDataLeave(gateway.authenticator.may, arns)
        gateway.model_data_refusal = self.model_data_leave.refusal
        self.results = LocalRoots(settings.local_results, kept_out, "local_results")
        self.async_rules = AsyncRules(self.results, settings.topics)
        self.plane = ControlPlane(
            *(self.resources, arns, wall_clock, clock),
            is_local=self.endpoint_keeper.planning.allows_path,
            async_rules=self.async_rules,
        )
        operations = EndpointOperations(
            *(self.resources, self.catalogue, self.endpoint_keeper),
            *(self.model_data_leave, wall_clock),
        )
        self.plane.add(operations.operations, operations.operations_of_operator)
        self.deployments = Deployments(self.plane, self.resources, self.endpoint_keeper)
        gateway.answer_deployments = partial(answer_of_deployments, self.deployments)
        gateway.endpoints = KnownEndpoints(gateway.fleet, self.endpoint_keeper)
        gateway.pending_endpoints = self
        self.at_read: list[Callable[[], Awaitable[None]]] = []
        self.at_run: list[Callable[[], object]] = []
        self._has_read = self._is_up = False
        self._runs = asyncio.Event()
        gateway.service(TargetRoutes).add(lambda: self.plane.routes)

    def disk_steps(self) -> Iterable[DiskStep]:
        """Yield the steps that open the store for writing and read the resources."""
        yield DiskStep(CHANGES, self._gateway.store.open_for_writing)
        yield DiskStep(CREATED, self._read)

    async def _read(self) -> None:
        await self.resources.load()
        for each in self.at_read:
            await each()
        self._has_read = True
        if self._is_up:  # the disk refused the step at the start
            await self.endpoint_keeper.start()
            self._run()

    async def start(self) -> None:
        if self._has_read:
            await self.endpoint_keeper.start()
            if self.endpoint_keeper.found:
                self._gateway.fleet.is_ready = False

    def on_listening(self) -> None:
        """Run the endpoints that were found, unless the disk has refused to read them."""
        self._is_up = True
        if self._has_read:
            self._run()

    def _run(self) -> None:
        self.endpoint_keeper.run_found()
        for each in self.at_run:
            each()
        self._runs.set()

    async def pending_names(self) -> Collection[str]:
        """Return the names of endpoints that are to run and are not found yet.

        This waits until the disk gives the resources, which may take long.
        """
        await self._runs.wait()
        return self.endpoint_keeper.sought

    async def has_found(self, seconds: float) -> None:
        """Wait until all endpoints are found, at most this many seconds."""
        await self.endpoint_keeper.has_found(seconds)

    def take_settings(self, settings: Settings) -> None:
        """Give way to the settings' endpoints where names collide."""
        self.endpoint_keeper.give_way(settings)

    async def settings_taken(self) -> None:
        await self.endpoint_keeper.run_again()

    async def aclose(self) -> None:
        """Stop recording the state of endpoints, and wait for changes whose callers have left."""
        await self.endpoint_keeper.aclose()
        await self.plane.aclose()


def install(gateway: Gateway) -> None:
    gateway.service(ControlApi)
