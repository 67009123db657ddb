"""partway.gateway.operations.asked: path, query, and the names that a request has."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from partway.gateway.operations.asked import (
    PATH_HEADER,
    QUERY_HEADER,
    TARGET_CONTAINER,
    TARGET_VARIANT,
    Asked,
    asked_by_headers,
    check_names,
    container_target,
)
from partway.protocol.errors import InputValidationError

DEFAULT = "/invocations-bidirectional-stream"


@pytest.mark.clause("1.6-1", "2.1-3")
def test_headers_in_any_case_and_empty_ones():
    headers = CIMultiDict({PATH_HEADER.lower(): "v1/listen", QUERY_HEADER: "", TARGET_VARIANT: "B"})
    assert asked_by_headers(headers) == Asked("v1/listen", "", "B")
    headers[TARGET_CONTAINER] = "pre"
    assert asked_by_headers(headers) == Asked("v1/listen", "", "B", "pre")
    assert asked_by_headers(CIMultiDict()) == Asked()


@pytest.mark.clause("1.6-1")
@pytest.mark.parametrize(
    ("asked", "target"),
    [
        (Asked(), DEFAULT),
        (Asked(query="a=b"), f"{DEFAULT}?a=b"),
        (Asked(path="v1/listen", query="a=b&c=%20"), "/v1/listen?a=b&c=%20"),
    ],
)
def test_target(asked, target):
    assert container_target(asked) == target


@pytest.mark.clause("4-7")
@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (Asked(path="/a"), "InvalidModelInvocationPath"),
        (Asked(path="a/../b"), "InvalidModelInvocationPath"),
        (Asked(path="."), "InvalidModelInvocationPath"),
        (Asked(path="a" * 101), "InvalidModelInvocationPath"),
        (Asked(query="a"), "InvalidModelQueryString"),
        (Asked(query="a=" + "b" * 2047), "InvalidModelQueryString"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_against_its_pattern(asked, code):
    with pytest.raises(InputValidationError) as refused:
        container_target(asked)
    assert refused.value.members["ErrorCode"] == code


@pytest.mark.clause("4-7")
@pytest.mark.parametrize(
    ("member", "code"),
    [("variant", "InvalidTargetVariant"), ("container", "InvalidTargetContainerHostname")],
)
def test_what_can_be_no_name(member, code):
    check_names(Asked(**{member: "AllTraffic"}))
    check_names(Asked(**{member: ""}))
    with pytest.raises(InputValidationError) as refused:
        check_names(Asked(**{member: "a_b"}))
    assert refused.value.members["ErrorCode"] == code
