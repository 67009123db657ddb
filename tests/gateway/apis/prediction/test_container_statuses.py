"""A container's refusals at every door of prediction: the status, the words, and Retry-After."""

from __future__ import annotations

import json
import logging

import pytest

from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.fleet.stream_policy import StreamPolicy
from tests.gateway.apis.prediction.predicting import OF_ENDPOINT, answer, asking
from tests.gateway.conftest import container, gateway_for
from tests.gateway.containers.containers import PATIENCE
from tests.wire.peers import ENDPOINT

__all__ = ["asking", "container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

TENSORS = b'{"inputs": [{"name": "a", "datatype": "FP32", "shape": [1], "data": [1]}]}'
V2_CONTAINER = PredictionPolicy(infer_route="/v2/models/its-own/infer")

GOOGLES = (f"{OF_ENDPOINT}:predict", f"{OF_ENDPOINT}:rawPredict", f"{OF_ENDPOINT}:streamRawPredict")
PLAIN = ("/v1/model:predict", f"/v1/models/{ENDPOINT}:predict")
INFER = f"/v2/models/{ENDPOINT}/infer"

#: The status that a client gets for each status of a container, and Google's name of the status.
STATUSES = {
    301: (502, "INTERNAL"),
    400: (400, "INVALID_ARGUMENT"),
    401: (502, "INTERNAL"),
    403: (502, "INTERNAL"),
    404: (404, "NOT_FOUND"),
    405: (502, "INTERNAL"),
    408: (502, "INTERNAL"),
    409: (409, "ABORTED"),
    413: (413, "INVALID_ARGUMENT"),
    415: (415, "INVALID_ARGUMENT"),
    418: (502, "INTERNAL"),
    422: (422, "INVALID_ARGUMENT"),
    424: (502, "INTERNAL"),
    429: (429, "RESOURCE_EXHAUSTED"),
    499: (502, "INTERNAL"),
    500: (502, "INTERNAL"),
    501: (502, "INTERNAL"),
    502: (502, "INTERNAL"),
    503: (503, "UNAVAILABLE"),
    504: (502, "INTERNAL"),
}


async def refusals(client):
    """Each door's answer, in this order: Google's, the plain ones, and V2's."""
    for path in (*GOOGLES, *PLAIN, INFER):
        body = TENSORS if path == INFER else b'{"instances": [7]}'
        status, headers, said = await client.ask(path, body)
        yield path, status, headers, json.loads(said)["error"]


@pytest.mark.parametrize("policy", [None, V2_CONTAINER], ids=["instances", "tensors"])
async def test_each_status_of_a_container_at_each_door(asking, policy):
    client = await asking(policy=policy)
    for status, (expected, name) in STATUSES.items():
        client.told.says = answer(b"its own words", b"Retry-After: 7", status=b"%d No" % status)
        async for path, found, headers, error in refusals(client):
            assert found == expected, (path, status)
            assert headers.get("Retry-After") == ("7" if status in (429, 503) else None)
            assert headers.get("WWW-Authenticate") is None
            if path in GOOGLES:
                assert error == {"code": expected, "message": "its own words", "status": name}
            else:
                assert error == "its own words"


@pytest.mark.parametrize("status", [400, 404, 500, 503])
async def test_the_log_has_the_status_that_the_client_gets(asking, caplog, status):
    client = await asking()
    client.told.says = answer(b"its own words", status=b"%d No" % status)
    caplog.set_level(logging.INFO)
    got = [found async for _, found, *_ in refusals(client)]
    lines = [each.msg.fields for each in caplog.records if "refused" in str(each.msg)]
    assert [each["status"] for each in lines] == got
    assert all(f"({status})" in each["reason"] for each in lines)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b'{"error": "Divide by zero"}', "Divide by zero"),
        (b'{"error": {"code": 400, "message": "no such column"}}', "no such column"),
        (b'{"detail": [1]}', '{"detail": [1]}'),
        (b"no idea\n", "no idea"),
        (b"\xff", "\N{REPLACEMENT CHARACTER}"),
        (b"", "the container answered 400 and said nothing"),
    ],
)
async def test_the_words_of_a_container(asking, said, words):
    client = await asking()
    client.told.says = answer(said, status=b"400 No")
    async for path, status, _, error in refusals(client):
        assert (status, error["message"] if path in GOOGLES else error) == (400, words), path


async def test_retry_after_is_a_number_or_a_date(asking):
    client = await asking()
    date = "Wed, 21 Oct 2026 07:28:00 GMT"
    for given, found in ((date, date), ("soon\x80", None), ("9" * 2000, None)):
        line = b"Retry-After: " + given.encode("latin-1")
        client.told.says = answer(b"no", line, status=b"503 No")
        async for _, status, headers, _ in refusals(client):
            assert (status, headers.get("Retry-After")) == (503, found)


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (b"", "the container gave no whole answer"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "the container gave no whole answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "the container gave no whole answer"),
    ],
    ids=["no answer", "no HTTP", "no whole head"],
)
async def test_a_container_that_gives_no_answer_is_502(asking, says, words):
    async def script(call):
        await call.request()
        call.say(says)

    client = await asking(script=script)
    async for path, status, _, error in refusals(client):
        said = error["message"] if path in GOOGLES else error
        assert (status, said[: len(words)]) == (502, words)


async def test_a_container_that_answers_late_is_504(asking):
    async def script(call):
        await call.request()
        await call.end()

    streams = StreamPolicy(connect_timeout=PATIENCE, invocation_timeout=0.1)
    client = await asking(script=script, streams=streams)
    async for path, status, _, error in refusals(client):
        assert status == 504
        said = error["message"] if path in GOOGLES else error
        assert said.startswith("Your invocation timed out while waiting for a response from")
        if path in GOOGLES:
            assert error["status"] == "DEADLINE_EXCEEDED"


async def test_awss_doors_keep_awss_status(asking):
    client = await asking()
    for status in STATUSES:
        client.told.says = answer(b"its own words", b"Retry-After: 7", status=b"%d No" % status)
        for door in ("invocations", "invocations-response-stream"):
            found, headers, said = await client.ask(f"/endpoints/{ENDPOINT}/{door}", b"x")
            members = json.loads(said)
            assert (found, headers["x-amzn-ErrorType"]) == (424, "ModelError")
            assert members["OriginalStatusCode"] == status
            assert members["OriginalMessage"] == "its own words"
