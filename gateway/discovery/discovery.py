"""The gateway's service that discovers instances and endpoints in a cluster."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable

from prometheus_client import CollectorRegistry

from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.endpoint_slices import NO_PORT
from partway.gateway.discovery.endpoint_objects import EndpointObjects
from partway.gateway.discovery.metrics import DiscoveryMetrics
from partway.gateway.discovery.pod_reports import PodReports
from partway.gateway.discovery.service_sources import ServiceSources
from partway.gateway.fleet.discovered.source import FoundInstances
from partway.gateway.fleet.endpoint import Discovered
from partway.gateway.fleet.fleet import Fleet
from partway.gateway.quota import LiveGateways
from partway.gateway.service import Service
from partway.gateway.settings.cluster_table import ClusterTable
from partway.gateway.settings.settings import Settings
from partway.gateway.settings.settings_file import located
from partway.gateway.timing.clock import Clock
from partway.log_lines import LogLine

log = logging.getLogger("partway.cluster")


class Discovery(Service):
    """Discovers instances, from the first discovered endpoint to the gateway's end.

    A gateway that starts is not ready before the API server has told once. Afterwards the server
    may be away: the last instances serve on.

    Attributes:
        sources: the Services of the cluster.

    Raises:
        ClusterNotFound: there is no cluster.
    """

    def __init__(
        self,
        settings: Settings,
        fleet: Fleet,
        gateways: LiveGateways,
        registry: CollectorRegistry,
        clock: Clock,
        wall_clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._fleet = fleet
        self._gateways = gateways
        self._clock = clock
        self._table = settings.cluster or ClusterTable()
        self._server = ApiServer(located(self._table, os.environ), clock)
        self._reports = PodReports(self._server, socket.gethostname(), clock, wall_clock)
        self.sources = ServiceSources(
            self._server, clock, self._reports.tell, self._fleet.tell_informed
        )
        self._objects: EndpointObjects | None = None
        self._awaited: set[str] = set()  # namespaces
        DiscoveryMetrics(self.sources, gateways, registry)

    async def start(self) -> None:
        own = self._server.settings.namespace
        sources = [each.source for one in self._settings.endpoints for each in one.variants]
        services = [each.service for each in sources if isinstance(each, Discovered)]
        if self._table.gateways is not None:
            services.append(self._table.gateways)
            self.sources.follow(Discovered(self._table.gateways, NO_PORT), self._count_gateways)
        self._awaited = {self.sources.place_of(each)[0] for each in services}
        if self._table.endpoints:
            self._awaited.add(own)
            self._objects = EndpointObjects(
                *(self._server, own, self._fleet, self._settings, self._clock),
                self._fleet.tell_informed,
            )
        for each in self._awaited:
            self.sources.watch(each)
        self._fleet.is_uninformed = self._is_uninformed

    def take_settings(self, settings: Settings) -> None:
        if self._objects is not None:
            self._objects.take_settings(settings)

    async def settings_taken(self) -> None:
        if self._objects is not None:
            self._objects.follow()

    async def stop(self) -> None:
        """Follow nothing more; instances drain as they are."""
        if self._objects is not None:
            await self._objects.aclose()

    async def aclose(self) -> None:
        await self._reports.aclose()
        await self.sources.aclose()
        await self._server.aclose()

    def _is_uninformed(self) -> bool:
        """Whether the API server has not told yet all that the gateway's readiness depends on."""
        if self._objects is not None and not self._objects.is_listed:
            return True
        return not all(map(self.sources.is_known, self._awaited))

    def _count_gateways(self, found: FoundInstances) -> None:
        """Divide shares by the gateways that are ready; a Service that is gone changes nothing."""
        if found.is_refused:
            log.warning(LogLine("the gateways cannot be counted", reason=found.trouble))
            return
        ready = sum(each.takes_streams for each in found.instances)
        self._gateways.count(ready)
        log.info(LogLine("gateways are counted", gateways=self._gateways.number))
