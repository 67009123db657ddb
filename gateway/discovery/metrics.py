"""Metrics of discovery."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric

from partway.gateway.discovery.service_sources import ServiceSources
from partway.gateway.quota import LiveGateways


class DiscoveryMetrics:
    """Metrics of the watches; each scrape reads them."""

    def __init__(
        self, sources: ServiceSources, gateways: LiveGateways, registry: CollectorRegistry
    ) -> None:
        self._sources = sources
        self._gateways = gateways
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        watches = GaugeMetricFamily(
            "partway_discovery_watching",
            "Whether a namespace's Services are watched now; 0 while the API server is away",
            labels=["namespace"],
        )
        troubles = self._sources.troubles
        for namespace in self._sources.namespaces:
            watches.add_metric([namespace], namespace not in troubles)
        yield watches
        number = GaugeMetricFamily(
            "partway_live_gateways", "Gateways among which the shares of principals are divided"
        )
        number.add_metric([], self._gateways.number)
        yield number
