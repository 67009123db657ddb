"""KeptNamespace: keeps a namespace of a cluster as its custom objects say."""

from __future__ import annotations

import asyncio
import logging
from asyncio import FIRST_COMPLETED
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from partway.gateway.apis.kubernetes.controller import EndpointController, rfc3339
from partway.gateway.cluster.answers import ClusterError
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.watched_collection import WatchedCollection
from partway.gateway.operator.cluster_endpoints import ClusterEndpoints
from partway.gateway.operator.cluster_objects import ClusterObjects
from partway.gateway.operator.limits import RETRY_INTERVAL
from partway.gateway.operator.live_gateways import GatewayPods
from partway.gateway.operator.model_deployments import ModelDataAccess
from partway.gateway.operator.model_faults import model_faults
from partway.gateway.operator.unreachable_pods import UnreachablePods
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import pause
from partway.log_lines import LogLine

log = logging.getLogger("partway.operator")


@dataclass(frozen=True, slots=True)
class PodSettings:
    """The operator's settings for what it makes.

    Attributes:
        domain: the suffix of the domain names of endpoints that objects show.
        data: how pods get model data.
        gateways: the Service of all gateways, NAME or NAMESPACE/NAME; empty if none is known.
    """

    domain: str = "localhost"
    data: ModelDataAccess = field(default_factory=ModelDataAccess)
    gateways: str = ""


class KeptNamespace:
    """The namespace of an API server's settings. No other process may keep it at the same time.

    Args:
        wall_clock: returns epoch seconds.
        is_first: whether no other process has kept it before.
    """

    def __init__(
        self,
        server: ApiServer,
        settings: PodSettings,
        clock: Clock,
        wall_clock: Callable[[], float],
        *,
        is_first: bool = True,
    ) -> None:
        self._server = server
        self._settings = settings
        self._clock = clock
        self._objects = ClusterObjects(
            server,
            clock,
            lambda model: model_faults(model, settings.data),
            lambda: rfc3339(wall_clock()),
            settings.domain,
        )
        self._endpoints = ClusterEndpoints(server, self._objects, clock, settings.data)
        self._controller = EndpointController(
            self._objects, self._endpoints, clock, wall_clock, settings.domain
        )
        self._is_first = is_first
        self._copies: tuple[WatchedCollection, ...] = ()
        self._further_copies: tuple[WatchedCollection, ...] = ()

    @property
    def copies(self) -> Collection[WatchedCollection]:
        """The collections that are followed."""
        return (*self._copies, *self._further_copies)

    @property
    def has_listed(self) -> bool:
        """Whether everything that it follows has been listed once."""
        return bool(self._copies) and all(each.listed.is_set() for each in self._copies)

    async def run(self) -> None:
        """Keep the namespace until cancelled; the end of a task is a fault, and is raised."""
        unreachable: UnreachablePods | None = None
        gateways: GatewayPods | None = None
        try:
            await self._prepared()
            if self._settings.gateways:
                gateways = self._gateway_pods()
                unreachable = self._unreachable_pods(gateways)
                self._further_copies = (gateways.slices, unreachable.reports.copy)
            self._copies = (*self._objects.copies, *self._endpoints.copies)
            for copy in self._copies:
                copy.start()
            for copy in self._copies:
                await copy.listed.wait()
            self._controller.start()
            if gateways is None or unreachable is None:
                await asyncio.Event().wait()
            else:
                gateways.start()
                unreachable.start()
                await _first_end(unreachable)
        finally:
            if unreachable is not None:
                await unreachable.aclose()
            if gateways is not None:
                await gateways.aclose()
            await self._controller.aclose()
            await self._objects.aclose()
            for copy in self._copies:
                await copy.aclose()

    def _gateway_pods(self) -> GatewayPods:
        version = self._endpoints.slices_version
        return GatewayPods(self._server, self._settings.gateways, version, self._clock)

    def _unreachable_pods(self, gateways: GatewayPods) -> UnreachablePods:
        pods = self._endpoints.pods
        made = UnreachablePods(self._server, pods, gateways, self._clock, is_first=self._is_first)
        self._endpoints.on_pod_change = gateways.on_change = made.look
        return made

    async def _prepared(self) -> None:
        while True:
            try:
                await self._endpoints.prepare()
            except ClusterError as error:
                log.warning(
                    LogLine("the API server cannot be asked; trying again", reason=str(error))
                )
                await pause(self._clock, RETRY_INTERVAL)
            else:
                return


async def _first_end(*workers: UnreachablePods) -> None:
    ended, _ = await asyncio.wait([each.task for each in workers], return_when=FIRST_COMPLETED)
    for each in ended:
        each.result()
        raise RuntimeError(f"the task {each.get_name()} has ended")
