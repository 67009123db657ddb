"""partway.gateway.streams.invocation_target: path, query, and the names that a request has."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from partway.gateway.containers.invocation_headers import TARGET_CONTAINER, TARGET_VARIANT
from partway.gateway.streams.invocation_target import (
    PATH_HEADER,
    QUERY_HEADER,
    InvocationTarget,
)
from partway.protocol.errors import InputValidationError

DEFAULT = "/invocations-bidirectional-stream"


@pytest.mark.clause("1.6-1", "2.1-3")
def test_headers_in_any_case_and_empty_ones():
    headers = CIMultiDict({PATH_HEADER.lower(): "v1/listen", QUERY_HEADER: "", TARGET_VARIANT: "B"})
    assert InvocationTarget.of_headers(headers) == InvocationTarget("v1/listen", "", "B")
    headers[TARGET_CONTAINER] = "pre"
    assert InvocationTarget.of_headers(headers) == InvocationTarget("v1/listen", "", "B", "pre")
    assert InvocationTarget.of_headers(CIMultiDict()) == InvocationTarget()


@pytest.mark.clause("1.6-1")
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (InvocationTarget(), DEFAULT),
        (InvocationTarget(query="a=b"), f"{DEFAULT}?a=b"),
        (InvocationTarget(path="v1/listen", query="a=b&c=%20"), "/v1/listen?a=b&c=%20"),
    ],
)
def test_path_and_query(target, expected):
    assert target.path_and_query() == expected


@pytest.mark.clause("4-7")
@pytest.mark.parametrize(
    ("target", "code"),
    [
        (InvocationTarget(path="/a"), "InvalidModelInvocationPath"),
        (InvocationTarget(path="a/../b"), "InvalidModelInvocationPath"),
        (InvocationTarget(path="."), "InvalidModelInvocationPath"),
        (InvocationTarget(path="a" * 101), "InvalidModelInvocationPath"),
        (InvocationTarget(query="a"), "InvalidModelQueryString"),
        (InvocationTarget(query="a=" + "b" * 2047), "InvalidModelQueryString"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_against_its_pattern(target, code):
    with pytest.raises(InputValidationError) as refused:
        target.path_and_query()
    assert refused.value.members["ErrorCode"] == code


@pytest.mark.clause("4-7")
@pytest.mark.parametrize(
    ("member", "code"),
    [("variant", "InvalidTargetVariant"), ("container", "InvalidTargetContainerHostname")],
)
def test_what_can_be_no_name(member, code):
    InvocationTarget(**{member: "AllTraffic"}).check_names()
    InvocationTarget(**{member: ""}).check_names()
    with pytest.raises(InputValidationError) as refused:
        InvocationTarget(**{member: "a_b"}).check_names()
    assert refused.value.members["ErrorCode"] == code
