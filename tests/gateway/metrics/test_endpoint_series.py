"""gateway.metrics.endpoint_series: what is told of endpoints that are there, and of no other."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from partway.gateway.metrics.endpoint_series import SeriesOfEndpoints


def test_series_are_there_as_long_as_their_endpoint():
    registry = CollectorRegistry()
    series = SeriesOfEndpoints(Counter("seen", "Seen", ["endpoint", "how"], registry=registry))

    def value(endpoint, how):
        return registry.get_sample_value("seen_total", {"endpoint": endpoint, "how": how})

    for endpoint in ("one", "other", "one"):
        series.of(endpoint, "well").inc()
        series.of(endpoint, "ill").inc()
    assert value("one", "well") == 2
    series.keep_only({"other", "third"})
    assert value("one", "well") is value("one", "ill") is None
    assert value("other", "ill") == 1
    series.of("one", "well").inc()  # of a request that ended behind the endpoint
    assert value("one", "well") == 1
    series.keep_only({"other"})
    assert value("one", "well") is None
