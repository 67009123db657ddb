"""GRPCInferenceService, byte by byte (Triton's and KServe's own clients: tests/interop)."""

from __future__ import annotations

import json
import struct

import pytest

from partway.gateway.fleet.prediction import PredictionPolicy
from tests.gateway.apis.grpc.calling import calling, field, fields
from tests.gateway.apis.prediction.predicting import TOKEN, answer, asking, authenticated
from tests.gateway.conftest import container, gateway_for
from tests.wire.peers import ENDPOINT

__all__ = ["asking", "authenticated", "calling", "container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

SERVICE = "/inference.GRPCInferenceService"
INFER = f"{SERVICE}/ModelInfer"
TYPED = field(6, struct.pack("<4f", 1, 2, 3, 4))  # InferTensorContents.fp32_contents
RAW = struct.pack("<4f", 1, 2, 3, 4)


def tensor(contents=b"", name="x", shape=(2, 2)):
    found = field(1, name) + field(2, "FP32") + field(3, bytes(shape))
    return field(5, found + (field(5, contents) if contents else b""))


def request(*members, name=ENDPOINT, version=""):
    return field(1, name) + (field(2, version) if version else b"") + b"".join(members)


async def test_numbers_become_instances_and_predictions_numbers(calling):
    caller = await calling()
    caller.told.says = answer(b'{"predictions": [1.5, 2]}')
    found = await caller.call(INFER, request(field(3, "7"), tensor(TYPED)))
    assert found.status == ("0", "")
    assert json.loads(caller.told.bodies[0]) == {"instances": [[1.0, 2.0], [3.0, 4.0]]}
    assert fields(found.messages[0])[:3] == [(1, ENDPOINT.encode()), (2, b"1"), (3, b"7")]
    (output,) = (each for number, each in fields(found.messages[0]) if number == 5)
    assert fields(output) == [
        (1, b"output-0"),
        (2, b"FP64"),
        (3, b"\2"),
        (5, field(7, struct.pack("<2d", 1.5, 2))),
    ]


async def test_bytes_are_answered_with_bytes(calling):
    caller = await calling(policy=PredictionPolicy(tensors="named", wrap="data"))
    caller.told.says = answer(b'{"predictions": [{"y": 1, "z": "a"}, {"y": 2, "z": "b"}]}')
    asked = request(tensor(), field(6, field(1, "z")), field(6, field(1, "y")), field(7, RAW))
    found = await caller.call(INFER, asked)
    assert found.status == ("0", "")
    assert json.loads(caller.told.bodies[0]) == {
        "instances": [{"data": {"x": [1.0, 2.0]}}, {"data": {"x": [3.0, 4.0]}}]
    }
    members = fields(found.messages[0])
    names = [fields(each)[0] for number, each in members if number == 5]
    assert names == [(1, b"z"), (1, b"y")]
    assert [each for number, each in members if number == 6] == [
        b"\1\0\0\0a\1\0\0\0b",
        struct.pack("<2q", 1, 2),
    ]


@pytest.mark.parametrize("raw", [True, False])
async def test_a_container_that_speaks_the_protocol_is_asked_by_it(calling, raw):
    caller = await calling(policy=PredictionPolicy(infer_route="/v2/models/m/infer"))
    data = struct.pack("<h", 5)
    output = {"name": "y", "datatype": "INT16", "shape": [1]}
    if raw:
        head = json.dumps({"outputs": [{**output, "parameters": {"binary_data_size": 2}}]}).encode()
        length = b"Inference-Header-Content-Length: %d" % len(head)
        caller.told.says = answer(head + data, length)
        asked = request(tensor(), field(7, RAW))
    else:
        caller.told.says = answer(json.dumps({"outputs": [{**output, "data": [5]}]}).encode())
        asked = request(tensor(TYPED))
    found = await caller.call(INFER, asked)
    assert found.status == ("0", "")
    assert caller.told.heads[0].startswith("POST /v2/models/m/infer HTTP/1.1\r\n")
    shown = {"name": "x", "shape": [2, 2], "datatype": "FP32"}
    if raw:
        assert caller.told.bodies[0].endswith(RAW)
        head = json.loads(caller.told.bodies[0].removesuffix(RAW))
        stated = f"Inference-Header-Content-Length: {len(caller.told.bodies[0]) - len(RAW)}\r\n"
        assert stated in caller.told.heads[0]
        assert "Content-Type: application/octet-stream\r\n" in caller.told.heads[0]
        assert head == {
            "parameters": {"binary_data_output": True},
            "inputs": [{**shown, "parameters": {"binary_data_size": 16}}],
        }
        assert fields(found.messages[0])[-1] == (6, data)
    else:
        assert json.loads(caller.told.bodies[0]) == {"inputs": [{**shown, "data": [1, 2, 3, 4]}]}
        assert fields(fields(found.messages[0])[-1][1])[-1] == (5, field(2, b"\5"))


@pytest.mark.parametrize(
    ("message", "code", "said"),
    [
        (request(tensor(TYPED), name="other"), "5", "Endpoint other of account"),
        (request(tensor(TYPED), version="2"), "5", "no version 2"),
        (request(), "3", "inputs: it must have one tensor at least"),
        (request(tensor(), field(7, b"abc")), "3", "3 bytes of data"),
        (request(tensor(), field(7, struct.pack("<4f", 1, 2, 3, float("nan")))), "3", "NaN"),
        (
            request(tensor(TYPED), field(6, field(1, "no")), field(6, field(1, "n"))),
            "3",
            "no such o",
        ),
        (
            request(*[field(5, b"")] * 4097),
            "3",
            "inputs: 4097 tensors were given; there must be at",
        ),
        (request(*[field(6, b"")] * 4097), "3", "outputs: 4097 tensors were given; there must be"),
        (b"\xff", "13", "must be a protobuf inference.ModelInferRequest"),
    ],
)
async def test_what_is_no_request_is_refused(calling, message, code, said):
    caller = await calling()
    caller.told.says = answer(b'{"predictions": [1.5, 2]}')
    found = await caller.call(INFER, message)
    assert (found.status[0], said in found.status[1]) == (code, True), found.status


@pytest.mark.parametrize("says", [b"{}", b"no JSON", b'{"outputs": []}'])
@pytest.mark.parametrize("route", ["/infer", None])
async def test_a_container_that_does_not_answer_so_is_an_internal_error(calling, says, route):
    caller = await calling(policy=PredictionPolicy(infer_route=route))
    caller.told.says = answer(says)
    code, said = (await caller.call(INFER, request(tensor(TYPED)))).status
    assert code == "13"
    assert "the container's answer: " in said


async def test_server_and_model_are_told_of(calling):
    caller = await calling()
    named = field(1, ENDPOINT)
    for call, message, expected in [
        ("ServerLive", b"", b"\x08\x01"),
        ("ServerReady", b"", b"\x08\x01"),
        ("ModelReady", named + field(2, "1"), b"\x08\x01"),
        ("ModelMetadata", named, named + field(2, "1")),
    ]:
        found = await caller.call(f"{SERVICE}/{call}", message)
        assert (found.status, found.messages) == (("0", ""), [expected]), call
    found = await caller.call(f"{SERVICE}/ServerMetadata", b"")
    assert fields(found.messages[0])[0] == (1, b"partway")
    for call in ("ModelReady", "ModelMetadata"):
        found = await caller.call(f"{SERVICE}/{call}", field(1, "other"))
        assert found.status[0] == "5"
    caller.gateway.gateway.streams.draining = True
    assert (await caller.call(f"{SERVICE}/ServerReady", b"")).messages == [b""]


async def test_who_may_not_invoke_may_not_call(calling, authenticated):
    caller = await calling((ENDPOINT, "other"), **authenticated)
    caller.told.says = answer(b'{"predictions": [1.5, 2]}')
    mine = f"Bearer {TOKEN}"
    for call in ("ServerLive", "ServerReady", "ServerMetadata"):
        assert (await caller.call(f"{SERVICE}/{call}", b"")).status[0] == "0"
    for call in ("ModelReady", "ModelMetadata", "ModelInfer"):
        path = f"{SERVICE}/{call}"
        more = () if call != "ModelInfer" else (tensor(TYPED),)
        assert (await caller.call(path, request(*more))).status[0] == "16"
        other = request(*more, name="other")
        assert (await caller.call(path, other, authorization=mine)).status[0] == "7"
        assert caller.told.bodies == []
        assert (await caller.call(path, request(*more), authorization=mine)).status[0] == "0"
