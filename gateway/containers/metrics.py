"""Prometheus metrics of requests.

A request only adds to integers; samples are made from them on each scrape.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Collection, Iterable
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

#: Seconds: an echo answers in a millisecond, a large model within its 60 s.
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_BUCKET_NAMES: Final = (*(str(float(bound)) for bound in _BUCKETS), "+Inf")


class RequestMetrics:
    """Counters over all requests that have had an instance."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._of: dict[tuple[str, str], _OfVariant] = {}
        registry.register(self)

    def ended(
        self, endpoint: str, variant: str, status: int, whole: float, model: float | None
    ) -> None:
        """Count a request that is over.

        Args:
            endpoint: the endpoint's name.
            variant: the name of the variant that it went to.
            status: the status that its client got.
            whole: seconds that it took.
            model: the container's share of these seconds; None if it never had the request.
        """
        counted = self._of.get((endpoint, variant))
        if counted is None:
            counted = self._of[endpoint, variant] = _OfVariant()
        counts = counted.statuses.get(status)
        if counts is None:
            counts = counted.statuses[status] = _Count()
        counts.number += 1
        if model is not None:
            if counted.observed is None:
                counted.observed = _Seconds(), _Seconds()
            of_model, of_overhead = counted.observed
            overhead = whole - model if whole > model else 0.0
            # Written out, since it runs twice for each request.
            of_model.in_buckets[bisect_left(_BUCKETS, model)] += 1
            of_model.sum += model
            of_overhead.in_buckets[bisect_left(_BUCKETS, overhead)] += 1
            of_overhead.sum += overhead

    def keep_only(self, endpoints: Collection[str]) -> None:
        """Drop the counts of all other endpoints, which have been deleted."""
        for endpoint, variant in list(self._of):
            if endpoint not in endpoints:
                del self._of[endpoint, variant]

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "partway_invocations",
            "Requests that went to an instance, by the status that their clients got",
            labels=("endpoint", "variant", "status"),
        )
        model = HistogramMetricFamily(
            "partway_invocation_model_seconds",
            "From the request at the container to the end of its answer",
            labels=("endpoint", "variant"),
        )
        overhead = HistogramMetricFamily(
            "partway_invocation_overhead_seconds",
            "Time of a request without its container's time",
            labels=("endpoint", "variant"),
        )
        for of, counted in self._of.items():
            for status, counts in counted.statuses.items():
                requests.add_metric((*of, str(status)), counts.number, created=counts.since)
            if counted.observed is not None:
                for family, seconds in zip((model, overhead), counted.observed, strict=True):
                    seconds.add_to(family, of)
        return requests, model, overhead


class _Count:
    """Requests with one status.

    Attributes:
        since: when the first of them ended, in epoch seconds.
    """

    __slots__ = ("number", "since")

    def __init__(self) -> None:
        self.number = 0
        self.since = time.time()


class _Seconds:
    """Durations, request by request.

    Attributes:
        sum: all seconds together.
    """

    __slots__ = ("_since", "in_buckets", "sum")

    def __init__(self) -> None:
        self.in_buckets = [0] * len(_BUCKET_NAMES)
        self.sum = 0.0
        self._since = time.time()

    def add_to(self, family: HistogramMetricFamily, of: tuple[str, str]) -> None:
        up_to = accumulate(self.in_buckets)
        family.add_metric(of, list(zip(_BUCKET_NAMES, up_to, strict=True)), self.sum)
        labels = dict(zip(("endpoint", "variant"), of, strict=True))
        family.add_sample(f"{family.name}_created", labels, self._since)


class _OfVariant:
    """The counts of one variant of an endpoint.

    Attributes:
        observed: the container's time, and the gateway's time beside it; None before the first.
    """

    __slots__ = ("observed", "statuses")

    def __init__(self) -> None:
        self.statuses: dict[int, _Count] = {}
        self.observed: tuple[_Seconds, _Seconds] | None = None
