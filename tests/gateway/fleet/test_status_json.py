"""partway.gateway.fleet.status_json: what a fleet says is the same on the other side."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from partway.gateway.fleet.status import EndpointStatus
from partway.gateway.fleet.status_json import from_json, to_json
from tests.gateway.fleet.statuses import an_endpoint


@settings(max_examples=15)  # each draws a hundred members
@given(
    some.lists(
        some.from_type(EndpointStatus).filter(lambda each: "nan" not in repr(each)), max_size=3
    ),
    some.sampled_from([None, 2]),
)
def test_there_and_back(endpoints, indent):
    text = to_json(endpoints, indent)
    assert from_json(text) == from_json(text.encode()) == tuple(endpoints)
    assert text.isascii()


def test_what_it_looks_like():
    (said,) = json.loads(to_json([an_endpoint()]))["endpoints"]
    (variant,) = said["variants"]
    (instance,) = variant["instances"]
    assert (said["name"], said["state"], said["since"]) == ("echo", "InService", 1795365075.0)
    assert (variant["name"], variant["desired"], variant["restarts"]) == ("AllTraffic", 1, 0)
    assert (instance["state"], instance["health"]) == ("InService", "healthy")


def test_what_a_newer_gateway_says_besides_is_left_out():
    said = json.loads(to_json([an_endpoint()]))
    said["more"] = said["endpoints"][0]["more"] = said["endpoints"][0]["variants"][0]["more"] = 1
    assert from_json(json.dumps(said)) == (an_endpoint(),)


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "{}", '{"endpoints": 1}', '{"endpoints": [1]}', '{"endpoints": [{}]}',
     to_json([an_endpoint()]).replace("InService", "Dozing"), "[" * 100_000, b"\xff"],
    ids=lambda text: repr(text[:20]),
)  # fmt: skip
def test_what_no_fleet_says(text):
    with pytest.raises(ValueError, match="this is not the JSON of a fleet's status"):
        from_json(text)
