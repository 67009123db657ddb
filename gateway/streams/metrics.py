"""Prometheus metrics of streams.

The hot path only adds to the session's own integers; these are summed on each scrape.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from partway.gateway.metrics.endpoint_series import SeriesOfEndpoints
from partway.gateway.streams.open_stream import OpenStream

#: Seconds: first parts come in 1 ms from an echo, in seconds from a large model.
_LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

#: Seconds: a short stream takes less than one, a conversation minutes. By default a stream lives
#: for at most 30 minutes.
_DURATION_BUCKETS = (0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 14400)

_FROM_CLIENT = "from_client"
_FROM_CONTAINER = "from_container"


class Metrics:
    """Counters over all streams.

    Args:
        sessions: the open streams, of either kind; another object maintains them.

    Attributes:
        registry: the Prometheus registry, not shared, so that several can live in one process.
        connections: by HTTP version, a function that counts the open connections; the servers of
            the connections set it.
    """

    def __init__(self, sessions: Collection[OpenStream]) -> None:
        self.registry = CollectorRegistry()
        self.connections: dict[str, Callable[[], int]] = {}
        self._sessions = sessions
        self._parts: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._bytes: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._ends = SeriesOfEndpoints(
            Counter(
                "partway_stream_ends",
                "Streams ended, by cause",
                ["endpoint", "cause"],
                registry=self.registry,
            )
        )
        self._first_part = SeriesOfEndpoints(
            Histogram(
                "partway_first_part_seconds",
                "From a stream's start to the container's first part",
                ["endpoint"],
                buckets=_LATENCY_BUCKETS,
                registry=self.registry,
            )
        )
        self._durations = SeriesOfEndpoints(
            Histogram(
                "partway_stream_seconds",
                "From a stream's start to its end",
                ["endpoint"],
                buckets=_DURATION_BUCKETS,
                registry=self.registry,
            )
        )
        self._refused = Counter(
            "partway_requests_refused",
            "Requests answered with an API error, by its name",
            ["error"],
            registry=self.registry,
        )
        self._closed_to_new = Counter(
            "partway_connections_closed_to_new_streams",
            "HTTP/2 connections closed to new streams for their client's excess, by its kind",
            ["too_much"],
            registry=self.registry,
        )
        self._dropped = Counter(
            "partway_connections_dropped",
            "Client connections closed to make room, or refused, by the resource that ran short",
            ["short"],
            registry=self.registry,
        )
        self.registry.register(self)

    def ended(self, session: OpenStream) -> None:
        """Count a stream that has ended with a cause; its own counts are final."""
        self._add(session, self._parts, self._bytes)
        if session.ending is not None:
            self._ends.of(session.endpoint, session.ending.cause.value).inc()
        if session.ended_at is not None:
            self._durations.of(session.endpoint).observe(session.ended_at - session.started_at)
        if session.first_part_at is not None:
            waited = session.first_part_at - session.started_at
            self._first_part.of(session.endpoint).observe(waited)

    def keep_only(self, endpoints: Collection[str]) -> None:
        """Drop the counts of all other endpoints, which have been deleted."""
        for counts in (self._parts, self._bytes):
            for key in [each for each in counts if each[0] not in endpoints]:
                del counts[key]
        for series in (self._ends, self._first_part, self._durations):
            series.keep_only(endpoints)

    def refused(self, error: str) -> None:
        self._refused.labels(error).inc()

    def closed_to_new(self, too_much: str) -> None:
        """Count an HTTP/2 connection that takes no more streams because of its client's excess."""
        self._closed_to_new.labels(too_much).inc()

    def dropped(self, short: str) -> None:
        """Count a client's connection that was closed to make room for others, or not taken."""
        self._dropped.labels(short).inc()

    def collect(self) -> Iterable[Metric]:
        parts = self._parts.copy()
        sizes = self._bytes.copy()
        streams: defaultdict[str, int] = defaultdict(int)
        buffered: defaultdict[str, int] = defaultdict(int)
        for session in self._sessions:
            self._add(session, parts, sizes)
            streams[session.endpoint] += 1
            buffered[session.endpoint] += session.buffered_bytes
        labels = ["endpoint", "direction"]
        yield _counter("partway_parts", "Parts relayed", labels, parts)
        yield _counter("partway_part_bytes", "Payload bytes relayed", labels, sizes)
        yield _gauge("partway_streams_open", "Streams open", "endpoint", streams)
        yield _gauge("partway_buffered_bytes", "Bytes held for open streams", "endpoint", buffered)
        counts = {version: count() for version, count in self.connections.items()}
        yield _gauge("partway_connections_open", "Client connections open", "http", counts)

    @staticmethod
    def _add(
        session: OpenStream,
        parts: defaultdict[tuple[str, str], int],
        sizes: defaultdict[tuple[str, str], int],
    ) -> None:
        for direction, counts in (
            (_FROM_CLIENT, session.from_client),
            (_FROM_CONTAINER, session.from_container),
        ):
            parts[session.endpoint, direction] += counts.parts
            sizes[session.endpoint, direction] += counts.bytes


def _counter(
    name: str, text: str, labels: list[str], values: dict[tuple[str, str], int]
) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(list(key), value)
    return family


def _gauge(name: str, text: str, label: str, values: dict[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family
