"""Prometheus metrics of asynchronous requests."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from partway.gateway.apis.asynchronous.requests import FailureCause
from partway.gateway.metrics.endpoint_series import SeriesOfEndpoints

#: The result of a request with an answer; other results are the causes of failures.
COMPLETED: Final = "Completed"


class AsyncMetrics:
    """The metrics of all asynchronous requests.

    Args:
        spooled: returns the bytes of bodies and answers on disk.
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
            ("partway_async_running", "Asynchronous requests in progress", running),
            (
                "partway_async_spooled_bytes",
                "Bytes of asynchronous requests' bodies and answers on disk",
                spooled,
            ),
        ):
            Gauge(name, what, registry=registry).set_function(value)
        self._ended = SeriesOfEndpoints(
            Counter(
                "partway_async_requests",
                "Asynchronous requests that have ended, by result",
                ["endpoint", "result"],
                registry=registry,
            )
        )
        self._notices = Counter(
            "partway_async_notices",
            "Notices of ended asynchronous requests, by whether they were delivered",
            ["delivered"],
            registry=registry,
        )
        for each in ("yes", "no"):
            self._notices.labels(each)

    def ended(self, endpoint: str, cause: FailureCause | None) -> None:
        """Count an ended request; ``cause`` is None if the request has an answer."""
        self._ended.of(endpoint, COMPLETED if cause is None else str(cause)).inc()

    def noticed(self, *, delivered: bool) -> None:
        self._notices.labels("yes" if delivered else "no").inc()

    def keep_only(self, endpoints: Collection[str]) -> None:
        """Remove the metrics of all other endpoints, which are deleted."""
        self._ended.keep_only(endpoints)
