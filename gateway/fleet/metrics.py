"""Prometheus metrics of the fleet: instances by state, restarts, launches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from partway.gateway.fleet.states import InstanceState
from partway.gateway.fleet.status import EndpointStatus
from partway.gateway.metrics.endpoint_series import SeriesOfEndpoints

#: Seconds. A process answers in a tenth of a second, a large model in minutes, and the platform
#: waits eight minutes (clause 1.1-3).
_LAUNCH_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 240, 480)


class FleetMetrics:
    """Metrics of instances: launches are counted, and each scrape reads the rest from the fleet."""

    def __init__(
        self, describe: Callable[[], tuple[EndpointStatus, ...]], registry: CollectorRegistry
    ) -> None:
        self._describe = describe
        self._launches = SeriesOfEndpoints(
            Histogram(
                "partway_instance_launch_seconds",
                "From an instance's launch to its first 200 for /ping",
                ["endpoint", "variant"],
                buckets=_LAUNCH_BUCKETS,
                registry=registry,
            )
        )
        registry.register(self)

    def launched(self, endpoint: str, variant: str, seconds: float) -> None:
        """Count an instance that has come into service.

        ``seconds`` is the time since its launch.
        """
        self._launches.of(endpoint, variant).observe(seconds)

    def keep_only(self, endpoints: Collection[str]) -> None:
        self._launches.keep_only(endpoints)

    def collect(self) -> Iterable[Metric]:
        states = GaugeMetricFamily(
            "partway_instances", "Instances, by state", labels=["endpoint", "variant", "state"]
        )
        restarts = CounterMetricFamily(
            "partway_instance_restarts",
            "Instances started in the place of one that failed",
            labels=["endpoint", "variant"],
        )
        outstanding = GaugeMetricFamily(
            "partway_instance_outstanding",
            "Streams and requests under way on an instance",
            labels=["endpoint", "variant", "instance"],
        )
        for endpoint in self._describe():
            for variant in endpoint.variants:
                whose = [endpoint.name, variant.name]
                restarts.add_metric(whose, variant.restarts)
                counts = Counter(instance.state for instance in variant.instances)
                for state in InstanceState:  # also empty ones, so that gauges fall
                    states.add_metric([*whose, state.value], counts[state])
                for instance in variant.instances:
                    busy = instance.streams + instance.requests
                    outstanding.add_metric([*whose, instance.id], busy)
        yield from (states, restarts, outstanding)
