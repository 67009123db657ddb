"""What the gateway counts of requests, for Prometheus."""

from __future__ import annotations

from collections.abc import Collection

from prometheus_client import CollectorRegistry, Counter, Histogram

from partway.gateway.endpoint_series import SeriesOfEndpoints

#: Bounds, in seconds: an echo answers in a millisecond, a large model in its 60 s.
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class RequestMetrics:
    """Counters over all requests that have had an instance.

    Args:
        registry: where they are exposed.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = SeriesOfEndpoints(
            Counter(
                "partway_invocations",
                "Requests that went to an instance, by the status that their clients got",
                ["endpoint", "variant", "status"],
                registry=registry,
            )
        )
        self._model = SeriesOfEndpoints(
            Histogram(
                "partway_invocation_model_seconds",
                "From the request at the container to the last of its answer",
                ["endpoint", "variant"],
                buckets=_BUCKETS,
                registry=registry,
            )
        )
        self._overhead = SeriesOfEndpoints(
            Histogram(
                "partway_invocation_overhead_seconds",
                "What a request took beside its container's time",
                ["endpoint", "variant"],
                buckets=_BUCKETS,
                registry=registry,
            )
        )

    def ended(
        self, endpoint: str, variant: str, status: int, whole: float, model: float | None
    ) -> None:
        """Count a request that is over.

        Args:
            endpoint: the endpoint's name.
            variant: the name of the variant that it went to.
            status: what its client got.
            whole: seconds that it took.
            model: seconds of them that the container took; None if it never had the request.
        """
        self._requests.of(endpoint, variant, str(status)).inc()
        if model is not None:
            self._model.of(endpoint, variant).observe(model)
            self._overhead.of(endpoint, variant).observe(max(0.0, whole - model))

    def keep_only(self, endpoints: Collection[str]) -> None:
        """Forget what was counted of all other endpoints, which are no more."""
        for each in (self._requests, self._model, self._overhead):
            each.keep_only(endpoints)
