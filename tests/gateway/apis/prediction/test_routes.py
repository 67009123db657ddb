"""Which endpoint a host names, and what a path may be."""

from __future__ import annotations

import pytest

from partway.gateway.apis.prediction.routes import (
    endpoint_of_host,
    of_endpoint,
    wants_http_body,
)


@pytest.fixture(autouse=True)
def _no_leaks():
    """No loop runs here."""


@pytest.mark.parametrize(
    ("host", "endpoints", "named"),
    [
        ("a.example:80", ("a", "b"), "a"),
        ("B", ("a", "b"), "b"),
        ("b.a.example", ("A", "B"), "B"),
        ("c.example", ("a",), "a"),
        ("", ("a",), "a"),
        ("c.example", ("a", "b"), "c"),
        ("127.0.0.1:80", ("127", "b"), ""),
        ("[::1]:80", ("a", "b"), ""),
        ("a_b.example", ("a", "b"), ""),
        ("x.example", (), "x"),
    ],
)
def test_the_hosts_first_label_else_the_only_endpoint(host, endpoints, named):
    assert endpoint_of_host(host, endpoints) == named


@pytest.mark.parametrize(
    ("parent", "fits"),
    [
        ("projects/example.com:p/locations/us-central1", True),
        ("projects/p%0d/locations/l", False),
        ("projects/p/locations/l/more", False),
        ("projects//locations/l", False),
    ],
)
def test_a_parent_can_be_said_in_a_header(parent, fits):
    match = of_endpoint("predict").fullmatch(f"/v1/{parent}/endpoints/e:predict")
    assert (match is not None) == fits


@pytest.mark.parametrize(
    ("query", "wants"),
    [
        ("%24alt=json%3Benum-encoding%3Dint", True),
        ("a=b&$alt=json", True),
        ("alt=json", False),
        ("$alt=proto", False),
        ("", False),
    ],
)
def test_wrapping_is_announced(query, wants):
    assert wants_http_body(query) == wants
