"""partway.gateway.apis.logs.inputs: botocore's model of them, in CloudWatch's words."""

from __future__ import annotations

import pytest

from partway.gateway.apis.control.errors import SerializationException
from partway.gateway.apis.logs.inputs import (
    EventsToken,
    InvalidParameter,
    LogInputs,
    group_asked_for,
    group_identified,
    mark_token,
    read_events_token,
    read_mark_token,
)
from partway.gateway.arns import Arns

ARNS = Arns("us-east-1", "012345678901")


async def test_inputs_are_checked_by_botocores_model():
    inputs = LogInputs(["GetLogEvents"])
    members = {"logGroupName": "/a", "logStreamName": "b", "limit": 5, "startTime": None}
    checked = await inputs.checked("GetLogEvents", members)
    assert checked == {"logGroupName": "/a", "logStreamName": "b", "limit": 5}
    with pytest.raises(InvalidParameter) as refused:
        await inputs.checked("GetLogEvents", {"logStreamName": "b", "limit": 10_001})
    assert refused.value.message == (
        "1 validation error detected: Value '10001' at 'limit' failed to satisfy constraint: "
        "Member must have value less than or equal to 10000"
    )
    with pytest.raises(SerializationException):
        await inputs.checked("GetLogEvents", {"logStreamName": 1})


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("position", [0, 1, 2**63 - 1])
def test_a_token_says_where_events_go_on(forward, position):
    token = EventsToken(forward, position)
    assert read_events_token(token.written()) == token


@pytest.mark.parametrize(
    "token",
    ["", "f", "f/1/s", "g/" + "0" * 56 + "/s", "f/" + "9" * 56 + "/s", "f/" + "0" * 10_000,
     "f/" + "\u0663" * 56 + "/s"],
)  # fmt: skip
def test_other_text_is_no_token(token):
    with pytest.raises(InvalidParameter, match=r"^The specified nextToken is invalid\.$"):
        read_events_token(token)


def test_a_mark_is_of_the_operation_and_of_what_was_asked():
    asked = {"logGroupName": "/a", "limit": 5}
    token = mark_token("FilterLogEvents", asked, [1, "b", 2])
    again = {"logGroupName": "/a", "limit": 7, "nextToken": token}
    assert read_mark_token("FilterLogEvents", again) == [1, "b", 2]
    assert read_mark_token("FilterLogEvents", asked) is None
    for operation, members in (
        ("DescribeLogStreams", again), ("FilterLogEvents", {**again, "logGroupName": "/b"}),
        ("FilterLogEvents", {**again, "nextToken": "x"}),
    ):  # fmt: skip
        with pytest.raises(InvalidParameter, match="nextToken is invalid"):
            read_mark_token(operation, members)


def test_a_group_is_named_once_by_its_name_or_its_arn():
    arn = "arn:aws:logs:us-east-1:012345678901:log-group:/a"
    for members in ({"logGroupName": "/a"}, {"logGroupIdentifier": "/a"},
                    {"logGroupIdentifier": arn}):  # fmt: skip
        assert group_asked_for(members, ARNS) == "/a"
    for members in ({}, {"logGroupName": "/a", "logGroupIdentifier": "/a"}):
        with pytest.raises(InvalidParameter, match="Exactly one of"):
            group_asked_for(members, ARNS)
    elsewhere = arn.replace("us-east-1", "eu-west-1")
    assert group_identified(elsewhere, ARNS) == elsewhere
