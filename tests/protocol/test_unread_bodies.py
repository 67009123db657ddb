"""What gateway and container say to each other of bodies that pass unread."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from partway.protocol.unread_bodies import (
    REFUSED,
    instances_found,
    instances_headers,
    unread_form,
    unread_lines,
)


@pytest.mark.parametrize(("columns", "form"), [(False, "instances"), (True, "columns")])
def test_a_gateway_says_how_a_body_is_to_be_read(columns, form):
    lines = unread_lines(columns=columns).split("\r\n")
    assert lines.pop() == ""
    headers = CIMultiDict(line.split(": ", 1) for line in lines)
    assert unread_form(headers) == form
    assert headers["Connection"] == "X-Partway-Unread"


@pytest.mark.parametrize(
    "said", ["", "instances", "instances; rules=2", "rows; rules=1", "; rules=1"]
)
def test_a_body_that_is_to_be_read_otherwise_is_as_any_other(said):
    assert unread_form(CIMultiDict({"x-partway-unread": said} if said else {})) is None


@given(st.integers(1, 10**9), st.booleans())
def test_a_container_says_how_many_instances_it_has_read(found, keeps):
    headers = instances_headers(found, keeps=keeps)
    assert instances_found(CIMultiDict(headers)) == found
    assert ("close" in headers["Connection"]) is not keeps


def test_a_container_says_that_it_refuses_them():
    assert instances_found(CIMultiDict(instances_headers(REFUSED, keeps=True))) == 0


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Partway-Instances": "7; rules=1"},
        {"X-Partway-Instances": "7; rules=1", "Connection": "keep-alive"},
        {"X-Partway-Instances": "7; rules=2", "Connection": "X-Partway-Instances"},
        {"X-Partway-Instances": "7", "Connection": "X-Partway-Instances"},
        {"X-Partway-Instances": "-7; rules=1", "Connection": "X-Partway-Instances"},
        {"X-Partway-Instances": "\xb2; rules=1", "Connection": "X-Partway-Instances"},
        {"X-Partway-Instances": f"{'9' * 5000}; rules=1", "Connection": "X-Partway-Instances"},
    ],
)  # fmt: skip
def test_what_is_not_said_to_the_other_end_is_not_believed(headers):
    assert instances_found(CIMultiDict(headers)) is None
