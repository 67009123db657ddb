"""ModelInfer over HTTP, before containers that speak the protocol and before those that do not."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import zlib

import pytest

from partway.gateway.fleet.prediction import PredictionPolicy, SignatureTable, TensorTable
from tests.gateway.apis.prediction.predicting import TOKEN, answer, asking, authenticated
from tests.gateway.conftest import container, gateway_for
from tests.wire.peers import ENDPOINT

__all__ = ["asking", "authenticated", "container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

INFER = f"/v2/models/{ENDPOINT}/infer"
LENGTH = "Inference-Header-Content-Length"
ROUTE = "/v2/models/its-own/infer"


def tensor(**members):
    return {"name": "a", "datatype": "FP32", "shape": [2, 2], "data": [1, 2, 3, 0.1]} | members


def asked(*inputs, **members):
    return json.dumps({"inputs": inputs or [tensor()], **members}).encode()


async def test_tensors_become_instances_and_predictions_tensors(asking):
    client = await asking()
    client.told.says = answer(b'{"predictions": [0.5, 2]}')
    for path in (INFER, f"/v2/models/{ENDPOINT}/versions/1/infer"):
        status, headers, said = await client.ask(path, asked(id="42", parameters={"k": 1}))
        assert (status, headers["Content-Type"], LENGTH in headers) == (
            200, "application/json", False,
        )  # fmt: skip
        assert json.loads(said) == {
            "model_name": ENDPOINT,
            "model_version": "1",
            "id": "42",
            "outputs": [
                {"name": "output-0", "shape": [2], "datatype": "FP64", "data": [0.5, 2.0]},
            ],
        }
    assert client.told.bodies == [b'{"instances":[[1.0,2.0],[3.0,0.1]],"parameters":{"k":1}}'] * 2
    head = client.told.heads[0]
    assert head.startswith("POST /invocations HTTP/1.1\r\n")
    assert "Content-Type: application/json\r\nAccept: application/json\r\n" in head


async def test_binary_data_go_both_ways(asking):
    client = await asking()
    client.told.says = answer(b'{"predictions": [{"s": "x", "n": 1}, {"s": "yz", "n": 2}]}')
    binary = tensor(parameters={"binary_data_size": 8}, datatype="INT16")
    del binary["data"]
    wanted = [{"name": "s", "parameters": {"binary_data": True}}, {"name": "n"}]
    head = asked(binary, outputs=wanted)
    body = head + b"\1\0\2\0\3\0\xff\xff"
    status, headers, said = await client.ask(INFER, body, **{LENGTH: str(len(head))})
    assert client.told.bodies == [b'{"instances":[[1,2],[3,-1]]}']
    assert (status, headers["Content-Type"]) == (200, "application/octet-stream")
    length = int(headers[LENGTH])
    assert json.loads(said[:length])["outputs"] == [
        {"name": "s", "shape": [2], "datatype": "BYTES", "parameters": {"binary_data_size": 11}},
        {"name": "n", "shape": [2], "datatype": "INT64", "data": [1, 2]},
    ]
    assert said[length:] == b"\1\0\0\0x\2\0\0\0yz"


async def test_instances_are_named_and_wrapped_as_it_is_set(asking):
    client = await asking(policy=PredictionPolicy("/predictions/m", "data", "named"))
    client.told.says = answer(b'{"predictions": [0, 1]}')
    assert (await client.json(INFER, asked()))[0] == 200
    assert client.told.heads[0].startswith("POST /predictions/m HTTP/1.1\r\n")
    assert json.loads(client.told.bodies[0]) == {
        "instances": [{"data": {"a": [1.0, 2.0]}}, {"data": {"a": [3.0, 0.1]}}]
    }


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_bodies_are_packed_both_ways(asking, coding, pack):
    client = await asking()
    numbers = [0.5] * 1000
    client.told.says = answer(json.dumps({"predictions": [numbers, numbers]}).encode())
    named = {"Content-Encoding": coding, "Accept-Encoding": coding}
    headers = {"Accept-Encoding": "identity", **named}
    status, back, said = await client.ask(INFER, pack(asked()), **headers)
    assert client.told.bodies == [b'{"instances":[[1.0,2.0],[3.0,0.1]]}']
    assert (status, back["Content-Encoding"], back["Vary"]) == (200, coding, "Accept-Encoding")
    assert json.loads(said)["outputs"][0]["data"] == [0.5] * 2000  # aiohttp has unpacked it
    _, back, said = await client.ask(INFER, asked(), **{"Accept-Encoding": "gzip, deflate"})
    assert "Content-Encoding" not in back
    assert json.loads(said)["outputs"][0]["data"] == [0.5] * 2000


async def test_a_long_body_is_as_good_as_a_short_one(asking):
    client = await asking()
    count = 40_000
    client.told.says = answer(b'{"predictions": [%b]}' % b",".join([b"1"] * count))
    long = tensor(datatype="INT64", shape=[count], data=[7] * count)
    status, said = await client.json(INFER, asked(long))
    assert (status, said["outputs"][0]["data"]) == (200, [1] * count)
    assert json.loads(client.told.bodies[0]) == {"instances": [7] * count}


async def test_tensors_are_held_to_a_signature(asking):
    signature = SignatureTable(
        {"a": TensorTable("float32", (2,))}, {"half": TensorTable("float32", (1,))}
    )
    client = await asking(policy=PredictionPolicy(wrap="data", signature=signature))
    client.told.says = answer(b'{"predictions": [[0.5], [2]]}')
    status, said = await client.json(INFER, asked())
    assert (status, said["outputs"]) == (
        200, [{"name": "half", "shape": [2, 1], "datatype": "FP32", "data": [0.5, 2.0]}],
    )  # fmt: skip
    assert json.loads(client.told.bodies[0]) == {
        "instances": [{"data": [1.0, 2.0]}, {"data": [3.0, 0.1]}]
    }
    for wrong, why in (
        (tensor(name="b"), "inputs: they must be those of the model's signature: 'a' of FP32"),
        (tensor(datatype="FP64"), "inputs: they must be those of the model's signature"),
        (tensor(shape=[4, 1]), "instances[0]"),
    ):
        status, said = await client.json(INFER, asked(wrong))
        assert status == 400
        assert said["error"].startswith(why)
    client.told.says = answer(b'{"predictions": [[0.5], [2, 3]]}')
    status, said = await client.json(INFER, asked())
    assert (status, said["error"][:39]) == (502, "the container's answer: predictions[1]:")
    assert len(client.told.bodies) == 2


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (answer(b'{"predictions": [1]}'), "there are 1 predictions for 2 instances; there must"),
        (answer(b'{"predictions": [[1], [1, 2]]}'), "output 'output-0': its arrays do not form a"),
        (answer(b'{"outputs": [1]}'), "predictions: missing"),
    ],
)
async def test_an_answer_that_is_none_is_the_containers_fault(asking, says, why):
    client = await asking()
    client.told.says = says
    status, said = await client.json(INFER, asked())
    assert status == 502
    assert said["error"].startswith(f"the container's answer: {why}")


async def test_a_containers_own_words_are_the_error(asking):
    client = await asking()
    client.told.says = answer(b'{"error": "Divide by zero"}', status=b"500 No")
    assert await client.json(INFER, asked()) == (502, {"error": "Divide by zero"})


async def test_what_a_client_does_wrong_reaches_no_container(asking):
    client = await asking(max_prediction_body=1000)
    wrong = [
        (INFER, b"{}", {}, 400, "inputs: it must be an array of at least one object"),
        (INFER, asked(tensor(shape=[4, 2])), {}, 400, "tensor 'a': 4 elements were given; FP32"),
        (INFER, asked(), {LENGTH: "-1"}, 400, f"the header {LENGTH} must be a whole number"),
        (INFER, asked(), {LENGTH: "9" * 11}, 400, f"the header {LENGTH} must be a whole number"),
        (INFER, asked(), {"Content-Encoding": "br"}, 415, "its Content-Encoding is 'br'; it must"),
        (INFER, asked(), {"Content-Encoding": "gzip"}, 400, "must be one complete gzip body"),
        (
            INFER, gzip.compress(b" " * 1001), {"Content-Encoding": "gzip"}, 413,
            "over 1000 bytes when unpacked",
        ),
        (INFER, b"x" * 1001, {}, 413, "over 1000 bytes; it must"),
        (f"/v2/models/{ENDPOINT}/versions/2/infer", asked(), {}, 404, "has no version 2"),
        ("/v2/models/unknown/infer", asked(), {}, 404, "Endpoint unknown of account"),
    ]  # fmt: skip
    for path, body, headers, expected, why in wrong:
        status, said = await client.json(path, body, **headers)
        assert status == expected, said
        assert why in said["error"]
    assert client.told.bodies == []


async def test_an_output_that_there_is_not_is_the_clients_fault(asking):
    client = await asking()
    client.told.says = answer(b'{"predictions": [{"x": 1}, {"x": 2}]}')
    status, said = await client.json(INFER, asked(outputs=[{"name": "y"}]))
    assert (status, said["error"]) == (400, "output 'y': the model has no such output; it has 'x'")
    client.told.says = answer(b'{"predictions": [{"b64": "/w"}, "x"]}')
    status, said = await client.json(INFER, asked())
    assert (status, said["error"][:41]) == (400, "tensor 'output-0': its bytes are not UTF-")


async def test_a_container_that_speaks_the_protocol_gets_the_body_as_it_is(asking):
    client = await asking(policy=PredictionPolicy(infer_route=ROUTE))
    body = b"{}\0\xffanything"
    client.told.says = answer(
        b"packed\0", b"Content-Type: application/octet-stream", b"Content-Encoding: x-its-own",
        b"Inference-Header-Content-Length: 3", b"X-Of-Its-Own: hidden",
    )  # fmt: skip
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Encoding": "br",
        "Accept-Encoding": "gzip",
        LENGTH: "2",
        "X-Of-Its-Own": "hidden",
    }
    status, back, said = await client.ask(INFER, body, **headers)
    assert (status, said, client.told.bodies) == (200, b"packed\0", [body])
    head = client.told.heads[0]
    assert head.startswith(f"POST {ROUTE} HTTP/1.1\r\n")
    for name, value in headers.items():
        assert (f"\r\n{name}: {value}\r\n" in head) == (value != "hidden")
    assert back[LENGTH] == "3"
    assert (back["Content-Encoding"], back["Content-Type"]) == (
        "x-its-own", "application/octet-stream",
    )  # fmt: skip
    assert (back["Content-Security-Policy"], back["X-Content-Type-Options"]) == (
        "sandbox", "nosniff",
    )  # fmt: skip
    assert "X-Of-Its-Own" not in back
    client.told.says = answer(b'{"error": "no such tensor"}', status=b"400 Bad Request")
    assert await client.json(INFER, body) == (400, {"error": "no such tensor"})


async def test_who_may_invoke_may_infer(asking, authenticated):
    client = await asking((ENDPOINT, "other"), **authenticated)
    client.told.says = answer(b'{"predictions": [1, 2]}')
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert (await client.json(INFER, asked(), **bearer))[0] == 200
    assert (await client.json(INFER, asked(), **client.signed(INFER, asked())))[0] == 200
    for headers, path, expected in (
        ({}, INFER, 401),
        (bearer, "/v2/models/other/infer", 403),
        ({"Authorization": f"Bearer {TOKEN}-who-may-not"}, INFER, 403),
        (client.signed(INFER, b"another body"), INFER, 403),
    ):
        status, said = await client.json(path, asked(), **headers)
        assert (status, type(said["error"])) == (expected, str)
    assert len(client.told.bodies) == 2


def test_who_is_not_asked_with_tensors_does_not_import_numpy():
    program = "import sys, partway.gateway.gateway; print('numpy' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ran.stdout == b"False\n"
