"""Prometheus series by endpoint, which end with their endpoint."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar

from prometheus_client import Counter, Histogram

_M = TypeVar("_M", Counter, Histogram)


class SeriesOfEndpoints(Generic[_M]):
    """A metric whose first label is an endpoint's name.

    Endpoints come and go while a gateway runs. Without :meth:`keep_only`, the series of each would
    stay for good, in memory and on each page of metrics.
    """

    def __init__(self, metric: _M) -> None:
        self._metric: _M = metric
        self._counting: dict[str, dict[tuple[str, ...], _M]] = {}

    def of(self, endpoint: str, *further: str) -> _M:
        """Return an endpoint's own metric; ``further`` are the values of the other labels."""
        of_endpoint = self._counting.setdefault(endpoint, {})
        found = of_endpoint.get(further)
        if found is None:  # prometheus_client finds it under a lock, by labels made anew each time
            found = of_endpoint[further] = self._metric.labels(endpoint, *further)
        return found

    def keep_only(self, endpoints: Collection[str]) -> None:
        """Remove the series of all other endpoints.

        Series of endpoints that have gone earlier are removed too. Requests that were under way
        there may have been counted after the endpoint's end.
        """
        for endpoint in self._counting.keys() - endpoints:
            for further in self._counting.pop(endpoint):
                self._metric.remove(endpoint, *further)
