"""rawPredict and streamRawPredict: bytes both ways, and within JSON where that is announced."""

from __future__ import annotations

import asyncio
import threading

import aiohttp
import pytest

from partway.gateway.apis.prediction import raw_predict
from partway.gateway.fleet.prediction import PredictionPolicy
from partway.protocol.prediction.http_body import read_http_body
from tests.gateway.apis.prediction.predicting import OF_ENDPOINT, PARENT, answer, asking
from tests.gateway.conftest import container, gateway_for
from tests.gateway.containers.containers import PATIENCE
from tests.wire.peers import ENDPOINT

__all__ = ["asking", "container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

RAW, STREAM = f"{OF_ENDPOINT}:rawPredict", f"{OF_ENDPOINT}:streamRawPredict"
WRAPS = "?%24alt=json%3Benum-encoding%3Dint"
CHUNKS = b"HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_bytes_go_straight_through(asking):
    client = await asking(policy=PredictionPolicy("/raw", "data"))
    client.told.says = answer(b"\xff{", b"Content-Type: text/x", b"Set-Cookie: not=this")
    for path in (RAW, STREAM):
        sent = {"Content_Type": "a/b", "X_Other": "not this"}
        status, headers, said = await client.ask(path, b'{"a": 1, "a": \x00', **sent)
        assert (status, said, headers["Content-Type"]) == (200, b"\xff{", "text/x")
        assert headers["X-Vertex-AI-Endpoint-Id"] == ENDPOINT
        assert headers["X-Vertex-AI-Deployed-Model-Id"] == "AllTraffic"
        assert headers["X-Vertex-AI-Model"] == f"{PARENT}/models/{ENDPOINT}"
        assert "Set-Cookie" not in headers
    assert client.told.bodies == [b'{"a": 1, "a": \x00'] * 2
    for head in client.told.heads:
        assert head.startswith("POST /raw HTTP/1.1\r\n")
        assert "Content-Type: a/b\r\n" in head
        assert "X-Other" not in head


async def test_a_body_within_json_is_unwrapped_where_that_is_announced(asking):
    client = await asking()
    client.told.says = answer(b"\xff", b"Content-Type: text/x")
    body = b'{"httpBody": {"contentType": "a/b", "data": "aGk"}}'
    expected = {"contentType": "text/x", "data": "/w=="}
    assert await client.json(RAW + WRAPS, body) == (200, expected)
    assert await client.json(STREAM + WRAPS, body) == (200, [expected])
    assert client.told.bodies == [b"hi"] * 2
    assert "Content-Type: a/b\r\n" in client.told.heads[0]
    for query in ("", "?alt=json", "?" + "&".join(["a=b"] * 20)):
        assert (await client.ask(RAW + query, body))[2] == b"\xff"
        assert client.told.bodies[-1] == body
    client.told.says = CHUNKS + b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n"
    pieces = [{"contentType": "text/x", "data": each} for each in ("YQ==", "Yg==")]
    assert await client.json(STREAM + WRAPS, body) == (200, pieces)
    client.told.says = CHUNKS + b"0\r\n\r\n"
    assert await client.json(STREAM + WRAPS, body) == (200, [])
    status, said = await client.json(RAW + WRAPS, b'{"httpBody": {"data": "A"}}')
    assert (status, said["error"]["status"]) == (400, "INVALID_ARGUMENT")


async def test_a_long_body_within_json_is_read_beside_the_loop(asking, monkeypatch):
    """Of many small objects it takes a third of a second, for which all streams would stand."""
    where = []

    def reading(text):
        where.append(threading.get_ident())
        return read_http_body(text)

    monkeypatch.setattr(raw_predict, "read_http_body", reading)
    client = await asking()
    body = b'{"httpBody": {"data": "%b"}}' % (b"A" * 100_000)
    assert (await client.ask(RAW + WRAPS, body))[0] == 200
    assert where[0] != threading.get_ident()


async def test_a_chunk_that_streams_comes_at_once(asking):
    taken = asyncio.Event()

    async def script(call):
        await call.request()
        call.say(CHUNKS + b"1\r\na\r\n")
        await taken.wait()
        call.say(b"1\r\nb\r\n0\r\n\r\n")
        await call.end()

    client = await asking(script=script)
    url = f"http://127.0.0.1:{client.gateway.port}{STREAM}"
    async with (
        asyncio.timeout(PATIENCE),
        aiohttp.ClientSession() as session,
        session.post(url, data=b"x") as response,
    ):
        assert await response.content.readany() == b"a"
        taken.set()
        assert await response.content.read() == b"b"


async def test_an_answer_that_breaks_off_is_not_whole_for_the_client_either(asking):
    async def script(call):
        await call.request()
        call.say(CHUNKS + b"1\r\na\r\n")

    client = await asking(script=script)
    for path in (RAW, STREAM, STREAM + WRAPS):
        with pytest.raises(aiohttp.ClientPayloadError):
            await client.ask(path, b'{"httpBody": {}}')


async def test_each_way_has_its_bound(asking):
    client = await asking(max_prediction_body=1000)
    assert (await client.json(RAW, b"x" * 1001))[0] == 413
    assert client.told.bodies == []
    client.told.says = answer(b"x" * 1001)
    status, said = await client.json(RAW, b"x" * 1000)
    assert status == 502
    assert said["error"]["message"] == ("the container's answer is over 1000 bytes")
    assert (await client.ask(STREAM, b"x"))[2] == b"x" * 1001
