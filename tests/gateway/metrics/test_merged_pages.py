"""partway.gateway.metrics.merged_pages: the pages of several processes as one."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

from partway.gateway.metrics.merged_pages import merged_pages


def page(streams: int, seconds: float) -> str:
    registry = CollectorRegistry()
    Counter("ends", "Ends", ["cause"], registry=registry).labels("closed").inc(streams)
    Gauge("open", "Open", registry=registry).set(streams)
    Histogram("waits", "Waits", buckets=[1, 2], registry=registry).observe(seconds)
    Gauge("process_fds", "Descriptors", registry=registry).set(10 + streams)
    Gauge("partway_limit", "Limits", ["setting"], registry=registry).labels("a").set(7)
    return generate_latest(registry).decode()


def test_a_page_has_sums_and_what_each_process_has():
    found = merged_pages(page(1, 0.5), {"1": page(2, 1.5), "2": page(4, 9)}).decode()
    lines = [each for each in found.splitlines() if each[0] != "#" and "_created" not in each]
    assert sorted(lines) == [
        'ends_total{cause="closed"} 7.0',
        "open 7.0",
        'partway_limit{setting="a"} 7.0',
        'process_fds{worker="1"} 12.0',
        'process_fds{worker="2"} 14.0',
        'process_fds{worker="parent"} 11.0',
        'waits_bucket{le="+Inf"} 3.0',
        'waits_bucket{le="1.0"} 1.0',
        'waits_bucket{le="2.0"} 2.0',
        "waits_count 3.0",
        "waits_sum 11.0",
    ]


def test_a_series_begins_with_the_first_process():
    first, second = page(1, 1), page(1, 1)
    assert begin_of(merged_pages(second, {"1": first}).decode()) == begin_of(first)


def begin_of(text: str) -> str:
    (line,) = (each for each in text.splitlines() if each.startswith("waits_created "))
    return line.split()[1]


def test_a_series_that_one_process_has_stays_as_it_is():
    with_tls = "partway_certificate_expiry_timestamp_seconds 5.0\n"
    found = merged_pages(with_tls, {"1": with_tls, "2": ""}).decode().splitlines()
    assert [each for each in found if each[0] != "#"] == [with_tls.strip()]
