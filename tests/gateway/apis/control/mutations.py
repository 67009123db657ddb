"""Requests of real scripts, changed at random: in their heads, their JSON and their bytes."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.gateway.apis.aws_client import ACCOUNT, ARN

_CONTAINER = {
    "Image": "registry.example/echo:1",
    "ContainerHostname": "one",
    "Mode": "SingleModel",
    "ModelDataSource": {
        "S3DataSource": {
            "S3Uri": "s3://bucket/prefix/", "S3DataType": "S3Prefix", "CompressionType": "None",
        }
    },
    "Environment": {"LEVEL": "debug", "TOKEN": "hidden"},
}  # fmt: skip

_VARIANT = {
    "VariantName": "AllTraffic",
    "ModelName": "echo",
    "InitialInstanceCount": 1,
    "InstanceType": "ml.m5.large",
    "InitialVariantWeight": 1.0,
    "ContainerStartupHealthCheckTimeoutInSeconds": 600,
    "RoutingConfig": {"RoutingStrategy": "RANDOM"},
}

_TAGS = [{"Key": "team", "Value": "a"}, {"Key": "stage", "Value": ""}]

_DEPLOYMENT = {
    "BlueGreenUpdatePolicy": {
        "TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0},
        "TerminationWaitInSeconds": 60,
    }
}

_LIST = {
    "NameContains": "e", "SortBy": "Name", "SortOrder": "Ascending", "MaxResults": 3,
    "CreationTimeAfter": 1_700_000_000.5, "CreationTimeBefore": 2_000_000_000,
}  # fmt: skip

REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("CreateModel", {"ModelName": "echo", "PrimaryContainer": _CONTAINER, "Tags": _TAGS,
                     "ExecutionRoleArn": f"arn:aws:iam::{ACCOUNT}:role/any",
                     "VpcConfig": {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]}}),
    ("CreateModel", {"ModelName": "two", "Containers": [_CONTAINER]}),
    ("DescribeModel", {"ModelName": "echo"}),
    ("ListModels", _LIST),
    ("DeleteModel", {"ModelName": "echo"}),
    ("CreateEndpointConfig", {"EndpointConfigName": "one", "ProductionVariants": [_VARIANT],
                              "Tags": _TAGS, "DataCaptureConfig": {
                                  "EnableCapture": False, "InitialSamplingPercentage": 1,
                                  "DestinationS3Uri": "s3://b/c",
                                  "CaptureOptions": [{"CaptureMode": "Input"}]}}),
    ("DescribeEndpointConfig", {"EndpointConfigName": "one"}),
    ("ListEndpointConfigs", _LIST),
    ("DeleteEndpointConfig", {"EndpointConfigName": "one"}),
    ("CreateEndpoint", {"EndpointName": "e", "EndpointConfigName": "one", "Tags": [],
                        "DeploymentConfig": _DEPLOYMENT}),
    ("DescribeEndpoint", {"EndpointName": "e"}),
    ("ListEndpoints", {**_LIST, "StatusEquals": "InService"}),
    ("UpdateEndpoint", {"EndpointName": "e", "EndpointConfigName": "one",
                        "RetainAllVariantProperties": True, "ExcludeRetainedVariantProperties": [
                            {"VariantPropertyType": "DesiredWeight"}],
                        "DeploymentConfig": _DEPLOYMENT}),
    ("UpdateEndpointWeightsAndCapacities", {
        "EndpointName": "e", "DesiredWeightsAndCapacities": [
            {"VariantName": "AllTraffic", "DesiredWeight": 1, "DesiredInstanceCount": 2}]}),
    ("DeleteEndpoint", {"EndpointName": "e"}),
    ("AddTags", {"ResourceArn": f"{ARN}model/echo", "Tags": _TAGS}),
    ("ListTags", {"ResourceArn": f"{ARN}model/echo", "MaxResults": 50}),
    ("DeleteTags", {"ResourceArn": f"{ARN}endpoint-config/one", "TagKeys": ["team"]}),
]  # fmt: skip

#: What stands in the place of a value.
JUNK: list[Any] = [
    None, True, False, 0, -1, 1, 1.5, 2**31, 2**63, 10**400, -1e308, 1e400, "", "a", "é",
    "\0", "\ud800", "a" * 64, "a" * 70_000, "-", "a/b", "../..", "/etc/passwd",
    "file:///etc/passwd", "s3://", "\r\nX: y", "MultiModel", [], {}, [None], [[[]]], [{}], {"": {}},
    {"a": None}, ["a"] * 200, {f"k{number}": "v" for number in range(200)}, ARN, f"{ARN}model/",
]  # fmt: skip


class Mutated(NamedTuple):
    """A request that may be anything.

    Attributes:
        method: of the request.
        target: its ``X-Amz-Target``.
        content_type: its ``Content-Type``.
        body: its body.
    """

    method: str
    target: str
    content_type: str
    body: bytes


def mutations(count: int, seed: int) -> Iterator[Mutated]:
    """So many requests, the same for the same seed: some are whole, most are changed."""
    draw = random.Random(seed)
    for _ in range(count):
        operation, members = draw.choice(REQUESTS)
        members = copy.deepcopy(members)
        for _ in range(draw.choice([0, 1, 1, 1, 2, 3])):
            change_json(draw, members)
        body = json.dumps(members).encode()
        if draw.random() < 0.2:
            body = change_bytes(draw, body)
        yield Mutated(*_head(draw, operation), body)


def _head(draw: random.Random, operation: str) -> tuple[str, str, str]:
    method, target, content_type = "POST", f"SageMaker.{operation}", "application/x-amz-json-1.1"
    match draw.randrange(30):
        case 0:
            method = draw.choice(["GET", "PUT", "DELETE", "OPTIONS"])
        case 1:
            target = draw.choice([operation, target.lower(), f"{target}x", "", "Logs_20140328.x"])
        case 2:
            target = f"SageMaker.{draw.choice(REQUESTS)[0]}"
        case 3:
            content_type = draw.choice(["", "text/plain", "application/json", "a;b;c"])
    return method, target, content_type


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container of JSON in a value, with each of its keys."""
    keys: Any = value if isinstance(value, dict) else range(len(value))
    for key in list(keys):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def change_json(draw: random.Random, members: dict[str, Any]) -> None:
    """Change something of a request's members at random."""
    places = list(_places(members))
    if not places:
        members[draw.choice(["ModelName", "x"])] = copy.deepcopy(draw.choice(JUNK))
        return
    container, key = draw.choice(places)
    match draw.randrange(6):
        case 0 if isinstance(container, dict):
            del container[key]
        case 1 if isinstance(container, dict):
            container[draw.choice(["", "x", key.lower(), "Environment"])] = container.pop(key)
        case 2 if isinstance(container, list):
            container *= draw.choice([2, 60])
        case 3:
            _, other = draw.choice(REQUESTS)
            container[key] = copy.deepcopy(draw.choice(list(other.values())))
        case _:
            container[key] = copy.deepcopy(draw.choice(JUNK))


def change_bytes(draw: random.Random, body: bytes) -> bytes:
    at = draw.randrange(len(body) + 1)
    match draw.randrange(5):
        case 0:
            return body[:at]
        case 1:
            return body[:at] + draw.randbytes(draw.randrange(1, 9)) + body[at:]
        case 2:
            return body[:at] + body[at + 1 :]
        case 3:
            return body[:at] + draw.choice([b"[", b"{", b'"', b"\\"]) * 5000 + body[at:]
        case _:
            return draw.randbytes(200)
