"""partway.gateway.metrics.merged_pages: the pages of several processes as one."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.exposition import generate_latest

from partway.gateway.metrics.merged_pages import counters_of, merged_pages


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


def test_the_version_is_the_same_everywhere():
    registry = CollectorRegistry()
    Info("partway_build", "Version", registry=registry).info({"version": "1"})
    text = generate_latest(registry).decode()
    found = merged_pages(text, {"1": text, "2": text}).decode().splitlines()
    assert [each for each in found if each[0] != "#"] == ['partway_build_info{version="1"} 1.0']


def test_counters_of_ended_processes_are_sums():
    """Once more, they stay the same, and are none of a process."""
    found = counters_of([page(1, 0.5), page(2, 1.5)])
    again = counters_of([found])
    for text in (found, again):
        lines = [each for each in text.splitlines() if each[0] != "#" and "_created" not in each]
        assert sorted(lines) == [
            'ends_total{cause="closed"} 3.0',
            'waits_bucket{le="+Inf"} 2.0',
            'waits_bucket{le="1.0"} 1.0',
            'waits_bucket{le="2.0"} 2.0',
            "waits_count 2.0",
            "waits_sum 2.0",
        ]
    first = page(1, 0.5)
    assert begin_of(counters_of([page(2, 1), first])) == begin_of(first)


def test_counters_are_kept_of_some_endpoints():
    registry = CollectorRegistry()
    ends = Counter("ends", "Ends", ["endpoint"], registry=registry)
    Counter("refused", "Refused", registry=registry).inc()
    for endpoint in "ab":
        ends.labels(endpoint).inc()
    found = counters_of([generate_latest(registry).decode()], {"b"}).splitlines()
    assert sorted(each for each in found if each[0] != "#" and "_created" not in each) == [
        'ends_total{endpoint="b"} 1.0',
        "refused_total 1.0",
    ]
