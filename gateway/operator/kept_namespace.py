"""KeptNamespace: keeps a namespace of a cluster as its custom objects say."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from partway.gateway.apis.kubernetes.controller import EndpointController, rfc3339
from partway.gateway.cluster.answers import ClusterError
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.watched_collection import WatchedCollection
from partway.gateway.operator.busy_pods import BusyPods
from partway.gateway.operator.cluster_endpoints import ClusterEndpoints
from partway.gateway.operator.cluster_objects import ClusterObjects
from partway.gateway.operator.gateway_pages import GatewayPages
from partway.gateway.operator.limits import RETRY_INTERVAL
from partway.gateway.operator.live_gateways import GatewayPods
from partway.gateway.operator.model_deployments import ModelDataAccess, model_faults
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
    """

    def __init__(
        self,
        server: ApiServer,
        settings: PodSettings,
        clock: Clock,
        wall_clock: Callable[[], float],
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
        self._copies: tuple[WatchedCollection, ...] = ()
        self._busy: BusyPods | None = None

    @property
    def copies(self) -> Collection[WatchedCollection]:
        """The collections that are followed."""
        return self._copies

    @property
    def silent_gateways(self) -> int:
        """How many gateways have not told their streams for a while."""
        return 0 if self._busy is None else len(self._busy.unknown)

    async def run(self) -> None:
        """Keep the namespace until cancelled."""
        unreachable: UnreachablePods | None = None
        gateways: GatewayPods | None = None
        try:
            await self._prepared()
            if self._settings.gateways:
                gateways = self._gateway_pods()
                gateways.start()
            unreachable = UnreachablePods(self._server, self._endpoints.pods, self._clock)
            self._copies = (*self._objects.copies, *self._endpoints.copies)
            for copy in self._copies:
                copy.start()
            for copy in self._copies:
                await copy.listed.wait()
            self._controller.start()
            unreachable.start()
            if gateways is not None:
                pages = GatewayPages(self._clock)
                followed = (self._endpoints.pods, gateways, pages)
                self._busy = BusyPods(self._server, *followed, self._clock)
                self._busy.start()
            await asyncio.Event().wait()
        finally:
            if self._busy is not None:
                await self._busy.aclose()
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
