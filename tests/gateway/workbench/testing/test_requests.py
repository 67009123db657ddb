"""The fixture's gateway as boto3 asks it: requests, response streams and the control plane."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from partway.testing import CloseWith, FailWith, Fragmented, RunningGateway

Client = Callable[[str], Any]

IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/chat:1"
ROLE = "arn:aws:iam::123456789012:role/any"


@pytest.fixture
def client(partway_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """Makes clients as code under test makes them: the environment says where the gateway is."""
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    for name, value in partway_gateway.environment.items():
        monkeypatch.setenv(name, value)
    config = Config(retries={"total_max_attempts": 1})
    with ExitStack() as clients:

        def made(service: str) -> Any:
            return clients.enter_context(closing(boto3.Session().client(service, config=config)))

        yield made


def invoked(client: Client, body: bytes | str = b"hi", **more: Any) -> Any:
    return client("sagemaker-runtime").invoke_endpoint(EndpointName="model", Body=body, **more)


def test_without_a_script_a_request_is_echoed(partway_gateway, client):
    answer = invoked(client, b"\x00\xff", ContentType="image/png")
    assert (answer["Body"].read(), answer["ContentType"]) == (b"\x00\xff", "image/png")
    (request,) = partway_gateway.container.requests
    assert (request.path, request.message) == ("invocations", b"\x00\xff")
    assert request.headers["Content-Type"] == "image/png"


def test_a_request_is_answered_by_the_script_of_streams(partway_gateway, client):
    partway_gateway.container.on('{"x": 1}', json.dumps({"y": 2}))
    partway_gateway.container.replies_with(str.upper)
    answer = invoked(client, '{"x": 1}', ContentType="application/json", Accept="application/json")
    assert (json.load(answer["Body"]), answer["ContentType"]) == ({"y": 2}, "application/json")
    assert invoked(client, "hi")["Body"].read() == b"HI"


def test_each_fragment_is_an_event_of_a_response_stream(partway_gateway, client):
    partway_gateway.container.replies_with(Fragmented("Hel", "lo"), "!")
    answer = client("sagemaker-runtime").invoke_endpoint_with_response_stream(
        EndpointName="model", Body=b"hi"
    )
    with closing(answer["Body"]) as events:
        parts = [event["PayloadPart"]["Bytes"] for event in events]
    assert b"".join(parts) == b"Hello!"
    assert parts[0] == b"Hel"


@pytest.mark.parametrize(
    ("reply", "status", "said"),
    [
        (FailWith(429, "slow down", {"Retry-After": "1"}), 429, "slow down"),
        (FailWith(500, b"\xff"), 500, ""),
        (CloseWith(1011, "out of memory"), 500, "out of memory"),
    ],
    ids=["429", "500", "close"],
)
def test_a_container_that_fails(partway_gateway, client, reply, status, said):
    partway_gateway.container.replies_with(reply)
    with pytest.raises(ClientError) as failed:
        invoked(client)
    assert failed.value.response["Error"]["Code"] == "ModelError"
    assert failed.value.response["OriginalStatusCode"] == status
    assert said in failed.value.response["OriginalMessage"]


def test_an_answer_that_breaks_off(partway_gateway, client):
    partway_gateway.container.replies_with("begun", CloseWith(1011))
    answer = client("sagemaker-runtime").invoke_endpoint_with_response_stream(
        EndpointName="model", Body=b"hi"
    )
    with closing(answer["Body"]) as events, pytest.raises(ClientError) as failed:
        list(events)
    assert failed.value.response["Error"]["Code"] == "ModelStreamError"


def test_what_is_deployed_is_the_scripted_container(partway_gateway, client):
    """Of any image, and with as many instances as are asked for."""
    partway_gateway.container.replies_with("42")
    sagemaker = client("sagemaker")
    container = {"Image": IMAGE, "ModelDataUrl": "s3://bucket/model.tar.gz"}
    sagemaker.create_model(
        ModelName="chat",
        PrimaryContainer={**container, "Environment": {"TOKEN": "t"}},
        ExecutionRoleArn=ROLE,
    )
    variant = {"VariantName": "A", "ModelName": "chat", "InitialInstanceCount": 2}
    sagemaker.create_endpoint_config(
        EndpointConfigName="chat", ProductionVariants=[{**variant, "InstanceType": "ml.m5.large"}]
    )
    sagemaker.create_endpoint(EndpointName="chat", EndpointConfigName="chat")
    sagemaker.get_waiter("endpoint_in_service").wait(
        EndpointName="chat", WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )
    found = sagemaker.describe_endpoint(EndpointName="chat")
    assert found["ProductionVariants"][0]["CurrentInstanceCount"] == 2
    runtime = client("sagemaker-runtime")
    assert runtime.invoke_endpoint(EndpointName="chat", Body=b"?")["Body"].read() == b"42"
    sagemaker.delete_endpoint(EndpointName="chat")
    with pytest.raises(ClientError) as gone:
        sagemaker.create_endpoint(EndpointName="other", EndpointConfigName="none")
    assert gone.value.response["Error"]["Code"] == "ValidationException"


def test_an_error_that_is_none():
    with pytest.raises(ValueError, match="status: 200 was given; it must be from 400 to 599"):
        FailWith(200)
