"""partway.gateway.containers.metrics: what is counted of a request."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import generate_latest

from partway.gateway.containers.metrics import RequestMetrics

LABELS = {"endpoint": "e", "variant": "v"}

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


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


def test_the_page_is_that_of_prometheus_own_counters():
    registry, own = CollectorRegistry(), CollectorRegistry()
    metrics = RequestMetrics(registry)
    labels = ("endpoint", "variant")
    words = {family.name: family.documentation for family in registry.collect()}
    requests = Counter(
        "partway_invocations", words["partway_invocations"], (*labels, "status"), registry=own
    )
    model, overhead = (
        Histogram(name, words[name], labels, buckets=BUCKETS, registry=own)
        for name in ("partway_invocation_model_seconds", "partway_invocation_overhead_seconds")
    )
    for took in (0.0, 0.001, 0.0011, 0.3, 60.0, 61.0):
        metrics.ended("e", "v", 200, took, took / 2)
        requests.labels("e", "v", "200").inc()
        model.labels("e", "v").observe(took / 2)
        overhead.labels("e", "v").observe(took / 2)
    metrics.ended("e", "w", 503, 1.0, None)
    requests.labels("e", "w", "503").inc()
    metrics.ended("e", "v", 424, 1.0, 2.0)  # clocks are read one after the other
    requests.labels("e", "v", "424").inc()
    model.labels("e", "v").observe(2.0)
    overhead.labels("e", "v").observe(0.0)
    assert _lines(registry) == _lines(own)


def _lines(registry):
    """The lines of a page; of when a series was begun only that it is said."""
    lines = generate_latest(registry).decode().splitlines()
    return {line.rpartition(" ")[0] if "_created{" in line else line for line in lines}
