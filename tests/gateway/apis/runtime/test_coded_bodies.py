"""Content-Encoding at every door over HTTP: undone where a body is read, passed on elsewhere."""

from __future__ import annotations

import base64
import gzip
import json
import threading
import zlib
from functools import cache

import pytest

from partway.gateway.apis.prediction import predictions
from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.http import content_codings
from tests.gateway.apis.kubernetes.served import MODELS
from tests.gateway.apis.prediction.predicting import OF_ENDPOINT, answer, asking, authenticated
from tests.gateway.conftest import container, gateway_for
from tests.wire.peers import ENDPOINT

__all__ = ["asking", "authenticated", "container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

RAW = f"{OF_ENDPOINT}:rawPredict"
STREAM = f"{OF_ENDPOINT}:streamRawPredict"
INFER = f"/v2/models/{ENDPOINT}/infer"
WRAPS = "?$alt=json;enum-encoding=int"

INSTANCES = b'{"instances": [7]}'
WRAPPED = json.dumps({"httpBody": {"data": base64.b64encode(b"some bytes").decode()}}).encode()
TENSORS = b'{"inputs": [{"name": "a", "datatype": "INT32", "shape": [1], "data": [7]}]}'
CONTROL = {"X-Amz-Target": "SageMaker.ListEndpoints", "Content-Type": "application/x-amz-json-1.1"}

#: Doors that read their body: path, headers, body, and what a container gets of it.
READING = {
    "google": (f"{OF_ENDPOINT}:predict", {}, INSTANCES, INSTANCES),
    "host": ("/v1/model:predict", {}, INSTANCES, INSTANCES),
    "model": (f"/v1/models/{ENDPOINT}:predict", {}, INSTANCES, INSTANCES),
    "columns": (f"/v1/models/{ENDPOINT}:predict", {}, b'{"inputs": [7]}', b'{"instances": [7]}'),
    "wrapped": (RAW + WRAPS, {}, WRAPPED, b"some bytes"),
    "wrapped stream": (STREAM + WRAPS, {}, WRAPPED, b"some bytes"),
    "tensors": (INFER, {}, TENSORS, b'{"instances":[7]}'),
    "control plane": ("/", CONTROL, b"{}", None),
    "logs": (
        "/",
        CONTROL | {"X-Amz-Target": "Logs_20140328.DescribeLogGroups"},
        b"{}",
        None,
    ),
}
PACKED = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "DEFLATE": zlib.compress,
    "identity": bytes,
    " ": bytes,
}

#: Doors that relay their body.
RELAYING = {
    "invoke": f"/endpoints/{ENDPOINT}/invocations",
    "raw": RAW,
    "stream": STREAM,
    "response stream": f"/endpoints/{ENDPOINT}/invocations-response-stream",
    "tensors": INFER,
}


@pytest.mark.parametrize("door", [door for door in READING if READING[door][3] is not None])
async def test_predictions_undo_codings_in_their_own_threads(asking, monkeypatch, door):
    """The threads have shares; those of asyncio are everybody's."""
    threads = []

    def noting(undo):
        def noted(*args):
            threads.append(threading.current_thread().name)
            return undo(*args)

        return noted

    monkeypatch.setattr(content_codings, "unpacked", noting(content_codings.unpacked))
    monkeypatch.setattr(predictions, "decoded", noting(predictions.decoded))
    client = await asking()
    path, headers, body, _ = READING[door]
    packed = gzip.compress(b'{"predictions": [1]}')
    client.told.says = answer(packed, b"Content-Encoding: gzip")
    said = {"Content-Encoding": "gzip", **headers}
    status, _, _ = await client.ask(path, gzip.compress(body), **said)
    assert status == (502 if door == "wrapped stream" else 200), "pieces are not undone"
    assert len(threads) == (1 if door == "wrapped stream" else 2)
    assert all(each.startswith("predictions") for each in threads), threads


@pytest.mark.parametrize("door", READING)
async def test_a_door_that_reads_undoes_the_coding(asking, door):
    client = await asking()
    path, headers, body, told = READING[door]
    for coding, pack in PACKED.items():
        status, _, said = await client.ask(path, pack(body), **headers, Content_Encoding=coding)
        assert status == 200, (coding, said)
    if told is not None:
        assert client.told.bodies == [told] * len(PACKED)
        assert "content-encoding" not in "".join(client.told.heads).lower()


@pytest.mark.parametrize("door", READING)
async def test_a_door_that_reads_refuses_other_codings_by_name(asking, door):
    client = await asking()
    path, headers, body, _ = READING[door]
    for coding in ("br", "zstd", "gzip, gzip", "gzip, identity", "utf-8"):
        status, back, said = await client.ask(path, body, **headers, Content_Encoding=coding)
        assert (status, back["Accept-Encoding"]) == (415, "gzip, deflate")
        words = f"the body: its Content-Encoding is '{coding}'; it must be gzip or deflate"
        assert words in said.decode()
    assert client.told.bodies == []


@cache
def packed_bomb():
    """A hundred megabytes, in a hundred kilobytes."""
    return gzip.compress(b" " * 100_000_000)


@pytest.mark.parametrize("door", READING)
async def test_a_door_that_reads_bounds_what_unfolds(asking, door):
    client = await asking(max_prediction_body=1000)
    path, headers, _, _ = READING[door]
    is_control = "X-Amz-Target" in headers
    bomb = packed_bomb() if is_control else packed_bomb()[:999]
    status, _, said = await client.ask(path, bomb, **headers, Content_Encoding="gzip")
    assert (status, b"bytes when unpacked" in said) == (400 if is_control else 413, True)
    for broken in (b"not packed", gzip.compress(b"{}")[:-1], gzip.compress(b"{}") + b"more"):
        status, _, said = await client.ask(path, broken, **headers, Content_Encoding="gzip")
        assert (status, b"must be one complete gzip body" in said) == (400, True)
    assert client.told.bodies == []


async def test_a_signature_is_of_the_body_as_it_is_sent(asking, authenticated):
    client = await asking(**authenticated)
    packed = gzip.compress(INSTANCES)
    path = f"{OF_ENDPOINT}:predict"
    signed = client.signed(path, packed)
    assert (await client.ask(path, packed, **signed, Content_Encoding="gzip"))[0] == 200
    assert (await client.ask(path, INSTANCES, **signed))[0] == 403


async def test_kubernetes_undoes_codings_and_refuses_others_as_a_status(asking):
    client = await asking()
    headers = {"Content-Type": "application/json"}
    plain = b'{"kind": "Another"}'
    body = gzip.compress(plain)
    refused = await client.json(MODELS, plain, **headers)
    assert refused[0] == 400
    assert await client.json(MODELS, body, **headers, Content_Encoding="gzip") == refused
    status, said = await client.json(MODELS, body, **headers, Content_Encoding="br")
    assert (status, said["kind"], said["code"]) == (415, "Status", 415)
    assert "its Content-Encoding is 'br'" in said["message"]


async def test_a_stream_of_events_takes_no_coding(asking):
    client = await asking()
    path = f"/endpoints/{ENDPOINT}/invocations-bidirectional-stream"
    headers = {"Content-Type": "application/vnd.amazon.eventstream", "Content-Encoding": "gzip"}
    status, back, said = await client.ask(path, b"", **headers)
    assert (status, back["Accept-Encoding"]) == (415, "identity")
    assert b"Content-Encoding is 'gzip'; it must be left out here" in said


@pytest.mark.parametrize("door", RELAYING)
async def test_a_door_that_relays_passes_bytes_and_coding_both_ways(asking, door):
    is_v2 = RELAYING[door] == INFER
    client = await asking(policy=PredictionPolicy(infer_route="/v2/x/infer") if is_v2 else None)
    client.told.says = answer(b"packed\0", b"Content-Encoding: x-its-own")
    sent = b"\x1f\x8bany"
    for coding in ("gzip", "br", "gzip, gzip"):
        status, back, said = await client.ask(RELAYING[door], sent, Content_Encoding=coding)
        assert (status, client.told.bodies.pop()) == (200, sent)
        assert f"\r\nContent-Encoding: {coding}\r\n" in client.told.heads.pop()
        if door == "response stream":
            assert "Content-Encoding" not in back
            assert back["X-Amzn-SageMaker-Content-Encoding"] == "x-its-own"
        else:
            assert (back["Content-Encoding"], said) == ("x-its-own", b"packed\0")


@pytest.mark.parametrize("door", ["google", "host", "model", "columns", "tensors", "wrapped"])
async def test_an_answer_that_is_read_is_read_without_its_coding(asking, door):
    client = await asking()
    path, _, body, _ = READING[door]
    for coding in ("gzip", "DEFLATE", "identity"):
        packed = PACKED[coding](b'{"predictions": [5]}')
        client.told.says = answer(packed, b"Content-Encoding: " + coding.encode())
        status, back, said = await client.ask(path, body)
        assert (status, "Content-Encoding" in back) == (200, False)
        if door == "wrapped":
            said = base64.b64decode(json.loads(said)["data"])
        assert b"5" in said
    for wrong in (b"br", b"deflate, gzip"):
        client.told.says = answer(packed, b"Content-Encoding: " + wrong)
        status, _, said = await client.ask(path, body)
        assert status == 502
        words = f"the container's answer: its Content-Encoding is '{wrong.decode()}'; it must be"
        assert words in said.decode()


async def test_an_answer_that_is_read_is_bounded_without_its_coding(asking):
    client = await asking(max_prediction_body=1000)
    bomb = gzip.compress(b" " * 100_000_000)[:999]
    client.told.says = answer(bomb, b"Content-Encoding: gzip")
    status, said = await client.json(f"/v1/models/{ENDPOINT}:predict")
    assert (status, said["error"]) == (
        502,
        "the container's answer: it is over 1000 bytes when unpacked; it must have at most 1000",
    )


async def test_chunks_in_messages_have_no_coding(asking):
    client = await asking()
    client.told.says = answer(b"packed", b"Content-Encoding: gzip")
    status, said = await client.json(STREAM + WRAPS, WRAPPED)
    assert status == 502
    assert said["error"]["message"].startswith(
        "the container's answer: its Content-Encoding is 'gzip'; it must have none, since"
    )


@pytest.mark.parametrize(
    ("coding", "said", "words"),
    [
        (b"gzip", gzip.compress(b'{"error": "no such column"}'), "no such column"),
        (b"deflate", zlib.compress(b"no such column"), "no such column"),
        (b"gzip", b"not packed", "not packed"),
        (b"br", b"\x8b\x02\x80", "(a body whose Content-Encoding is 'br')"),
    ],
    ids=["gzip", "deflate", "broken", "unknown"],
)
async def test_the_words_of_a_refusal_are_read_without_their_coding(asking, coding, said, words):
    client = await asking()
    client.told.says = answer(said, b"Content-Encoding: " + coding, status=b"400 No")
    assert await client.json(f"/v1/models/{ENDPOINT}:predict") == (400, {"error": words})
    status, found = await client.json(f"/endpoints/{ENDPOINT}/invocations")
    assert (status, words in found["OriginalMessage"]) == (424, True)
