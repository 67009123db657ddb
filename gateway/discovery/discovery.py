"""The gateway's service that discovers instances in a cluster."""

from __future__ import annotations

import os

from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.discovery.metrics import DiscoveryMetrics
from partway.gateway.discovery.service_sources import ServiceSources
from partway.gateway.gateway import Gateway
from partway.gateway.service import Service
from partway.gateway.settings.cluster_table import ClusterTable
from partway.gateway.settings.settings_file import located


class Discovery(Service):
    """Discovers instances, from the first discovered endpoint to the gateway's end.

    Attributes:
        sources: the Services of the cluster.

    Raises:
        ClusterNotFound: there is no cluster.
    """

    def __init__(self, gateway: Gateway) -> None:
        cluster = gateway.settings.cluster or ClusterTable()
        self._server = ApiServer(located(cluster, os.environ), gateway.clock)
        self.sources = ServiceSources(self._server, gateway.clock, lambda *_: None)
        DiscoveryMetrics(self.sources, gateway.streams.metrics.registry)

    async def aclose(self) -> None:
        await self.sources.aclose()
        await self._server.aclose()
