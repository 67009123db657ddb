"""partway.gateway.streams.metrics: what is counted, while streams are open and after."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from partway.gateway.streams.ends import Cause, Ending
from partway.gateway.streams.metrics import Metrics
from partway.gateway.streams.open_stream import Counts


@dataclass(eq=False)
class FakeSession:
    """What Metrics reads of a session."""

    endpoint: str = "echo"
    from_client: Counts = field(default_factory=Counts)
    from_container: Counts = field(default_factory=Counts)
    buffered_bytes: int = 0
    started_at: float = 100.0
    first_part_at: float | None = None
    ended_at: float | None = None
    ending: Ending | None = None


def samples(metrics: Metrics) -> dict[str, float]:
    """Every sample as a scraper reads it, ``name{label=value,…}``; none of the creation times."""
    found = {}
    for family in text_string_to_metric_families(generate_latest(metrics.registry).decode()):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            if not sample.name.endswith("_created"):
                found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


@pytest.fixture
def sessions() -> set[FakeSession]:
    return set()


@pytest.fixture
def metrics(sessions) -> Metrics:
    return Metrics(sessions)


def test_nothing_has_happened(metrics):
    assert samples(metrics) == {}


def test_an_open_stream_counts_at_once(metrics, sessions):
    session = FakeSession(buffered_bytes=7)
    sessions.add(session)
    session.from_client.parts, session.from_client.bytes = 2, 30
    session.from_container.parts, session.from_container.bytes = 3, 40
    expected = {
        "partway_streams_open{endpoint=echo}": 1,
        "partway_buffered_bytes{endpoint=echo}": 7,
        "partway_parts_total{direction=from_client,endpoint=echo}": 2,
        "partway_part_bytes_total{direction=from_client,endpoint=echo}": 30,
        "partway_parts_total{direction=from_container,endpoint=echo}": 3,
        "partway_part_bytes_total{direction=from_container,endpoint=echo}": 40,
    }
    assert samples(metrics) == expected
    assert samples(metrics) == expected, "looking changes nothing"
    session.from_client.parts = 5
    assert samples(metrics)["partway_parts_total{direction=from_client,endpoint=echo}"] == 5


def test_an_ended_stream_stays_in_the_counters(metrics, sessions):
    session = FakeSession(from_client=Counts(2, 30), from_container=Counts(3, 40))
    sessions.add(session)
    session.ending = Ending(Cause.COMPLETED)
    sessions.discard(session)
    metrics.ended(session)
    assert samples(metrics) == {
        "partway_parts_total{direction=from_client,endpoint=echo}": 2,
        "partway_part_bytes_total{direction=from_client,endpoint=echo}": 30,
        "partway_parts_total{direction=from_container,endpoint=echo}": 3,
        "partway_part_bytes_total{direction=from_container,endpoint=echo}": 40,
        "partway_stream_ends_total{cause=completed,endpoint=echo}": 1,
    }


def test_counters_never_go_back_as_streams_come_and_go(metrics, sessions):
    name = "partway_parts_total{direction=from_client,endpoint=echo}"
    seen = []
    for _ in range(3):
        session = FakeSession()
        sessions.add(session)
        session.from_client.parts = 2
        seen.append(samples(metrics)[name])
        session.ending = Ending(Cause.CLIENT_LOST)
        sessions.discard(session)
        metrics.ended(session)
        seen.append(samples(metrics)[name])
    assert seen == [2, 2, 4, 4, 6, 6]


def test_open_streams_are_added_up_by_endpoint(metrics, sessions):
    for endpoint, held in (("a", 1), ("a", 2), ("b", 5)):
        sessions.add(FakeSession(endpoint, buffered_bytes=held))
    found = samples(metrics)
    assert found["partway_streams_open{endpoint=a}"] == 2
    assert found["partway_streams_open{endpoint=b}"] == 1
    assert found["partway_buffered_bytes{endpoint=a}"] == 3
    assert found["partway_buffered_bytes{endpoint=b}"] == 5


@pytest.mark.parametrize("cause", Cause)
def test_ends_are_counted_by_cause(metrics, sessions, cause):
    for _ in range(2):
        session = FakeSession(ending=Ending(cause))
        sessions.add(session)
        sessions.discard(session)
        metrics.ended(session)
    assert samples(metrics)[f"partway_stream_ends_total{{cause={cause.value},endpoint=echo}}"] == 2


def test_the_time_to_the_first_part(metrics, sessions):
    for first in (100.0005, 100.02, 140.0, None):
        session = FakeSession(first_part_at=first, ending=Ending(Cause.COMPLETED))
        sessions.add(session)
        sessions.discard(session)
        metrics.ended(session)
    found = samples(metrics)
    assert found["partway_first_part_seconds_count{endpoint=echo}"] == 3, "one had no part"
    assert found["partway_first_part_seconds_sum{endpoint=echo}"] == pytest.approx(40.0205)
    assert found["partway_first_part_seconds_bucket{endpoint=echo,le=0.001}"] == 1
    assert found["partway_first_part_seconds_bucket{endpoint=echo,le=0.025}"] == 2
    assert found["partway_first_part_seconds_bucket{endpoint=echo,le=30.0}"] == 2
    assert found["partway_first_part_seconds_bucket{endpoint=echo,le=+Inf}"] == 3


def test_how_long_streams_have_lived(metrics):
    for seconds in (0.05, 7.0, 1800.0, 20_000.0):
        metrics.ended(FakeSession(ended_at=100.0 + seconds))
    found = samples(metrics)
    assert found["partway_stream_seconds_count{endpoint=echo}"] == 4
    assert found["partway_stream_seconds_sum{endpoint=echo}"] == pytest.approx(21807.05)
    buckets = {"0.1": 1, "5.0": 1, "10.0": 2, "1800.0": 3, "14400.0": 3, "+Inf": 4}
    for bound, count in buckets.items():
        assert found[f"partway_stream_seconds_bucket{{endpoint=echo,le={bound}}}"] == count
    metrics.keep_only(())
    assert samples(metrics) == {}


def test_refusals_are_counted_by_error(metrics):
    metrics.refused("ModelError")
    metrics.refused("ModelError")
    metrics.refused("AccessDeniedException")
    assert samples(metrics) == {
        "partway_requests_refused_total{error=ModelError}": 2,
        "partway_requests_refused_total{error=AccessDeniedException}": 1,
    }


def test_several_live_in_one_process(metrics, sessions):
    sessions.add(FakeSession())
    assert samples(Metrics(set())) == {}


def test_connections_are_counted_by_who_serves_them(metrics):
    metrics.connections["2"] = lambda: 3
    metrics.closed_to_new("resets")
    assert samples(metrics) == {
        "partway_connections_open{http=2}": 3,
        "partway_connections_closed_to_new_streams_total{too_much=resets}": 1,
    }


def test_what_was_counted_of_an_endpoint_goes_with_it(metrics):
    for endpoint in ("one", "other"):
        session = FakeSession(endpoint, Counts(1, 2), first_part_at=100.5)
        session.ending = Ending(Cause.COMPLETED)
        metrics.ended(session)
    metrics.keep_only({"other"})
    found = samples(metrics)
    assert found
    assert not [each for each in found if "endpoint=one" in each]
    assert found["partway_parts_total{direction=from_client,endpoint=other}"] == 1
