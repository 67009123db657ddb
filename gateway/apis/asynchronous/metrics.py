"""What the gateway counts of asynchronous requests, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from partway.gateway.apis.asynchronous.requests import FailureCause
from partway.gateway.metrics.endpoint_series import SeriesOfEndpoints

#: The result of a request that has its answer; those of the others are their causes'.
COMPLETED: Final = "Completed"


class AsyncMetrics:
    """Counters over all asynchronous requests.

    Args:
        registry: where they are exposed.
        waiting: how many wait for their turn.
        running: how many are worked on.
        spooled: bytes of bodies and answers on disk.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        waiting: Callable[[], int],
        running: Callable[[], int],
        spooled: Callable[[], int],
    ) -> None:
        for name, what, value in (
            ("partway_async_waiting", "Asynchronous requests that wait for their turn", waiting),
            ("partway_async_running", "Asynchronous requests that are worked on", running),
            ("partway_async_spooled_bytes", "Bodies and answers on disk", spooled),
        ):
            Gauge(name, what, registry=registry).set_function(value)
        self._ended = SeriesOfEndpoints(
            Counter(
                "partway_async_requests",
                "Asynchronous requests that have come to their end, by what that was",
                ["endpoint", "result"],
                registry=registry,
            )
        )
        self._notices = Counter(
            "partway_async_notices",
            "Notices of such ends, by whether they were delivered",
            ["delivered"],
            registry=registry,
        )
        for each in ("yes", "no"):
            self._notices.labels(each)

    def ended(self, endpoint: str, cause: FailureCause | None) -> None:
        """Count a request that has come to its end; without a cause it has its answer."""
        self._ended.of(endpoint, COMPLETED if cause is None else str(cause)).inc()

    def noticed(self, *, delivered: bool) -> None:
        """Count a notice that was delivered, or given up."""
        self._notices.labels("yes" if delivered else "no").inc()

    def keep_only(self, endpoints: Collection[str]) -> None:
        """Forget what was counted of all other endpoints, which are no more."""
        self._ended.keep_only(endpoints)
