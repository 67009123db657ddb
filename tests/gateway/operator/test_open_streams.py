"""partway.gateway.operator.open_streams: from the gateways' metrics to the streams of pods."""

from __future__ import annotations

import pytest

from partway.gateway.fleet.discovered.source import short_id
from partway.gateway.metrics.merged_pages import merged_pages
from partway.gateway.operator.limits import COST_FALLS_AFTER, LAST_STREAMS_COUNT
from partway.gateway.operator.open_streams import (
    NO_STREAMS,
    GatewayStreams,
    ToldStreams,
    UnreadablePage,
    open_streams,
)
from tests.gateway.fleet.statuses import a_variant, an_endpoint, an_instance
from tests.gateway.operator.a_gateway import page_of

SAMPLE = b"\npartway_instance_outstanding{"
UID = "6f1a2b3c-0d4e-4f5a-8b6c-7d8e9f0a1b2c"


def test_the_page_of_a_gateway_names_pods():
    echo = short_id("echo-5d-x7k2p", UID)
    page = page_of(
        an_endpoint(
            "chat",
            a_variant(
                an_instance(f"chat-echo-{echo}", streams=2, requests=3),
                an_instance(f"chat-echo-{echo}-2", streams=1),
                an_instance(f"chat-echo-{short_id('idle', UID)}"),
                name="echo",
            ),
        ),
        an_endpoint("other", a_variant(an_instance(f"other-echo-{echo}", streams=4), name="echo")),
    )
    expected = GatewayStreams(10, {"echo-5d-x7k2p-6f1a2b3c": 9, "echo-5d-x7k2p-6f1a2b3c-2": 1})
    assert open_streams(page) == expected
    with_workers = merged_pages(page.decode(), {"1": page_of().decode()})
    assert open_streams(with_workers) == expected


def test_a_gateway_without_an_instance():
    assert open_streams(page_of()) == NO_STREAMS
    assert open_streams(merged_pages(page_of().decode(), {})) == NO_STREAMS


@pytest.mark.parametrize(
    "sample",
    [
        b'{endpoint="a",instance="a-b-c"} 1.0',
        b'{endpoint="a",instance="a-b-c",variant="b"} NaN',
        b'{endpoint="a",instance="a-b-c",variant="b"} +Inf',
        b'{endpoint="a",instance="a-b-c",variant="b"} x',
        b'{endpoint="a",instance="a-b-\xff",variant="b"} 1.0',
    ],
)
def test_a_page_that_is_invalid(sample):
    page = page_of() + b"partway_instance_outstanding" + sample + b"\n"
    with pytest.raises(UnreadablePage, match="a sample of partway_instance_outstanding is invalid"):
        open_streams(page)


@pytest.mark.parametrize("page", [b"", b"<html>", b"# TYPE process_cpu_seconds_total counter\n"])
def test_the_page_of_something_else(page):
    with pytest.raises(UnreadablePage, match="the page has no partway_instance_outstanding"):
        open_streams(page)


def test_the_streams_of_known_pods():
    told = {"a-1-00000001": 4, "a-1-00000001-2": 1, "of-others": 4, "b-00000002-2": 1}
    known = GatewayStreams(10, told).of_pods({"a-1-00000001", "b-00000002", "c-00000003"})
    assert known == GatewayStreams(10, {"a-1-00000001": 5, "b-00000002": 1})


def test_the_streams_of_all_gateways_are_summed():
    told = ToldStreams()
    told.know(["g", "h", "i"], 0)
    told.tell("g", GatewayStreams(9, {"a": 5}), 0)
    told.tell("h", GatewayStreams(3, {"a": 2, "b": 1}), 0)
    assert told.by_pod() == {"a": 7, "b": 1}
    assert told.of("g").total == 9
    told.know(["h"], 0)  # one that is gone has no streams
    assert told.by_pod() == {"a": 2, "b": 1}


def test_the_last_streams_count_for_a_while():
    told = ToldStreams()
    told.know(["g", "new"], 0)
    told.tell("g", GatewayStreams(1, {"a": 1}), 10)
    told.know(["g", "new"], LAST_STREAMS_COUNT)
    assert told.unknown(LAST_STREAMS_COUNT) == set()
    assert told.unknown(LAST_STREAMS_COUNT + 1) == {"new"}
    assert told.unknown(LAST_STREAMS_COUNT + 11) == {"g", "new"}
    told.tell("new", NO_STREAMS, LAST_STREAMS_COUNT + 11)
    assert told.unknown(LAST_STREAMS_COUNT + 11) == {"g"}
    assert told.by_pod() == {"a": 1}


def test_a_new_leader_waits_for_all_gateways_before_a_pod_is_idle():
    assert LAST_STREAMS_COUNT < COST_FALLS_AFTER


def test_a_negative_sample_hides_no_streams():
    with pytest.raises(UnreadablePage, match="negative"):
        open_streams(page_of() + SAMPLE + b'endpoint="a",variant="b",instance="c"} -1e9\n')


@pytest.mark.timeout(20)
def test_a_page_of_one_word_takes_no_time():
    """With quadratic time it would take hours."""
    word = b"a" * 4_000_000
    with pytest.raises(UnreadablePage):
        open_streams(page_of() + SAMPLE + word + b"} 1\n")
