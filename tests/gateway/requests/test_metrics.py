"""partway.gateway.requests.metrics: what is counted of a request."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from partway.gateway.requests.metrics import RequestMetrics

LABELS = {"endpoint": "e", "variant": "v"}


def test_what_is_counted():
    registry = CollectorRegistry()
    metrics = RequestMetrics(registry)
    metrics.ended("e", "v", 200, 0.5, 0.4)
    metrics.ended("e", "v", 424, 1.0, None)

    def value(name, **labels):
        return registry.get_sample_value(f"partway_{name}", LABELS | labels)

    assert value("invocations_total", status="200") == value("invocations_total", status="424") == 1
    assert value("invocation_model_seconds_sum") == 0.4
    assert value("invocation_model_seconds_count") == 1
    assert round(value("invocation_overhead_seconds_sum"), 6) == 0.1


def test_what_was_counted_of_an_endpoint_goes_with_it():
    registry = CollectorRegistry()
    metrics = RequestMetrics(registry)
    for endpoint in ("one", "other"):
        for status in (200, 424):
            metrics.ended(endpoint, "v", status, 0.5, 0.4)
    metrics.keep_only({"other"})
    page = generate_latest(registry).decode()
    assert 'endpoint="one"' not in page
    assert 'endpoint="other"' in page
