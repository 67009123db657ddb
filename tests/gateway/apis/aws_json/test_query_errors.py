"""partway.gateway.apis.aws_json.protocol: what boto3's clients of other services are told."""

from __future__ import annotations

import asyncio

import pytest
from botocore.exceptions import ClientError

from partway.gateway.apis.aws_json.protocol import UnknownQuery, aws_query
from tests.gateway.apis.aws_client import aws
from tests.wire.conftest import container, gateway_for

__all__ = ["container", "gateway_for"]


@pytest.mark.parametrize(
    ("service", "call", "members"),
    [
        ("cloudwatch", "get_metric_data", {"MetricDataQueries": [], "StartTime": 1, "EndTime": 2}),
        ("sts", "get_caller_identity", {}),
        ("iam", "get_role", {"RoleName": "x"}),
    ],
)
async def test_other_services_are_refused_by_name(gateway_for, service, call, members):
    gateway = await gateway_for()

    def ask():
        with pytest.raises(ClientError) as caught:
            getattr(aws(service, gateway.port), call)(**members)
        return caught.value.response["Error"]

    error = await asyncio.to_thread(ask)
    assert error["Code"] == "UnknownOperationException"
    assert "Logs_20140328.GetLogEvents, SageMaker.AddTags" in error["Message"]


def test_a_message_is_text():
    assert b"<Message>&lt;a&gt; &amp; b</Message>" in aws_query(UnknownQuery("<a> & b")).body
