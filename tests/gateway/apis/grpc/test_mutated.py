"""Calls changed at random: each is answered with a status, and none stops another."""

from __future__ import annotations

import random
import struct

import pytest
from google.protobuf import json_format, struct_pb2

from tests.gateway.apis.grpc.calling import (
    NAME,
    PREDICTIONS,
    calling,
    ended,
    field,
    prefixed,
)
from tests.gateway.apis.prediction.predicting import asking
from tests.gateway.conftest import container, gateway_for
from tests.wire.peers import ENDPOINT

__all__ = ["asking", "calling", "container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

INSTANCE = json_format.ParseDict([1, {"a": "b", "c": [None, True]}], struct_pb2.Value())
TENSOR = field(1, "x") + field(2, "FP32") + field(3, b"\1")
CALLS = {
    f"{PREDICTIONS}/Predict": field(1, NAME) + field(2, INSTANCE.SerializeToString()),
    f"{PREDICTIONS}/RawPredict": field(1, NAME) + field(2, field(1, "a/b") + field(2, b"any")),
    f"{PREDICTIONS}/StreamRawPredict": field(1, NAME) + field(2, field(2, b"any")),
    "/google.cloud.aiplatform.v1.EndpointService/GetEndpoint": field(1, NAME),
    "/inference.GRPCInferenceService/ModelInfer": field(1, ENDPOINT)
    + field(5, TENSOR + field(5, field(6, struct.pack("<f", 1)))),
    "/inference.GRPCInferenceService/ModelReady": field(1, ENDPOINT),
    "/grpc.health.v1.Health/Check": b"",
}
#: What a call of a client's own making may end with; 13 also where its message cannot be read.
STATUSES = {"0", "3", "5", "8", "12", "13"}


def changed(rng: random.Random, body: bytes) -> bytes:
    """A body with a few bytes that are others, gone, there twice, or more."""
    found = bytearray(body)
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(found))
        match rng.randrange(4):
            case 0 if found:
                found[at % len(found)] ^= 1 << rng.randrange(8)
            case 1:
                del found[at : at + rng.randint(1, 4)]
            case 2:
                found[at:at] = found[at : at + rng.randint(1, 9)]
            case _:
                found[at:at] = rng.randbytes(rng.randint(1, 4))
    return bytes(found)


@pytest.mark.parametrize("path", CALLS, ids=lambda path: path.rpartition("/")[2])
async def test_each_is_answered(calling, path):
    caller = await calling()
    rng = random.Random(path)
    found = set()
    for _ in range(60):
        whole = rng.random() < 0.5  # else the prefix may be changed too
        message = CALLS[path]
        body = prefixed(changed(rng, message)) if whole else changed(rng, prefixed(message))
        status = (await ended(caller.begin(path, body))).status[0]
        found.add(status)
    assert found <= STATUSES
    assert len(found) > 1
    assert (await caller.call(path, CALLS[path])).status[0] in {"0", "13"}
