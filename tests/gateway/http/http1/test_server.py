"""HTTP/1.1 on the port: deadlines, limits, one reading of a request, and what is never logged."""

from __future__ import annotations

import asyncio
import logging

import pytest

from partway.gateway.http.http1 import server as http1_module
from tests.frame_factory import BINARY, KEY, TEXT, close, frame
from tests.wire.dialects import DIALECTS, Part
from tests.wire.peers import RAW, STREAM_PATH, RawContainer, switching, upgrade_request

HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


# --- Deadlines -----------------------------------------------------------------------------------


@pytest.fixture
def deadline(monkeypatch):
    """Seconds in which a request's head has to come."""
    seconds = 0.2
    monkeypatch.setattr(http1_module, "REQUEST_HEAD_TIMEOUT", seconds)
    return seconds


async def dribble(client, data):
    """A byte now and then, until the connection ends."""
    for byte in data:
        if client.writer.is_closing():
            return
        client.send(bytes([byte]))
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("before", [0, 1], ids=["first request", "second request"])
async def test_a_head_that_dribbles_in_is_cut_off(gateway_for, deadline, before):
    """Slowloris: bytes that go on coming do not move the deadline."""
    gateway = await gateway_for()
    client = await gateway.connect()
    for _ in range(before):
        client.send(HEALTHZ)
        assert (await client.response()).status == 200
    started = asyncio.get_running_loop().time()
    dribbling = asyncio.create_task(
        dribble(client, b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 50)
    )
    try:
        assert await client.eof() == b""
        took = asyncio.get_running_loop().time() - started
    finally:
        dribbling.cancel()
        await asyncio.gather(dribbling, return_exceptions=True)
    assert deadline * 0.5 < took < deadline * 5


async def test_an_idle_connection_is_closed_after_its_response(gateway_for, deadline):
    gateway = await gateway_for()
    client = await gateway.connect()
    client.send(HEALTHZ)
    assert (await client.response()).status == 200
    assert await client.eof() == b""


async def test_a_stream_outlives_the_deadline_of_its_head(gateway_for, deadline):
    async with RawContainer(lambda request: None) as container:
        gateway = await gateway_for(container=container)
        client = await gateway.connect()
        client.send(upgrade_request(subprotocols=RAW))
        model = await container.stream()
        await asyncio.sleep(deadline * 1.5)  # while it is being opened
        model.send(switching(model.request))
        assert (await client.read_head()).startswith(b"HTTP/1.1 101 ")
        await asyncio.sleep(deadline * 1.5)  # while it is silent
        client.send_frame(TEXT, b"still there")
        assert (await model.frame()).payload == b"still there"


# --- One reading of a request --------------------------------------------------------------------

POST = b"POST /healthz HTTP/1.1\r\nHost: a\r\n"

BAD_HEADS = {
    "length and chunked": POST
    + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "length with a sign": POST + b"Content-Length: +3\r\n\r\nabc",
    "length of words": POST + b"Content-Length: three\r\n\r\n",
    "chunked twice": POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "unknown coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "blank before the colon": POST + b"Content-Length : 3\r\n\r\nabc",
    "folded line": POST + b"X: a\r\n b\r\n\r\n",
    "bare line feeds": b"GET /healthz HTTP/1.1\nHost: a\n\n",
    "bare carriage return": b"GET /healthz HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
    "NUL in a value": b"GET /healthz HTTP/1.1\r\nHost: a\x00b\r\n\r\n",
    "NUL in a name": b"GET /healthz HTTP/1.1\r\nHo\x00st: a\r\n\r\n",
    "no colon": b"GET /healthz HTTP/1.1\r\nHost\r\n\r\n",
    "empty name": b"GET /healthz HTTP/1.1\r\n: a\r\n\r\n",
    "odd version": b"GET /healthz HTTP/9.9\r\nHost: a\r\n\r\n",
    "blank in the path": b"GET /health z HTTP/1.1\r\nHost: a\r\n\r\n",
    "control in the path": b"GET /health\x01z HTTP/1.1\r\nHost: a\r\n\r\n",
}


@pytest.mark.parametrize("sent", BAD_HEADS.values(), ids=BAD_HEADS)
async def test_heads_that_two_parsers_might_read_differently_are_refused(gateway_for, sent):
    gateway = await gateway_for()
    client = await gateway.connect()
    client.send(sent)
    assert (await client.response()).status == 400
    client.send(HEALTHZ)
    assert b"200 OK" not in await client.eof()  # nothing behind it is a request


def assert_api_error(response, status, name):
    """An error as clause 4-1 has it, which nobody takes for aiohttp's."""
    assert response.status == status
    assert response.headers["x-amzn-errortype"] == name
    assert response.headers["content-type"] == "application/json"
    assert response.headers["server"] == "partway"
    assert response.headers["connection"] == "close"
    assert response.headers["x-amzn-requestid"]


@pytest.mark.clause("4-1", "4-2")
@pytest.mark.parametrize("sent", BAD_HEADS.values(), ids=BAD_HEADS)
async def test_a_malformed_request_gets_an_error_of_the_api(gateway_for, sent):
    gateway = await gateway_for()
    client = await gateway.connect()
    client.send(sent)
    response = await client.response()
    assert_api_error(response, 400, "InputValidationError")
    assert response.json.keys() == {"Message", "ErrorCode"}
    assert await client.eof() == b""


@pytest.mark.parametrize("before", [0, 1], ids=["first request", "second request"])
async def test_nothing_of_a_malformed_request_comes_back(gateway_for, before):
    gateway = await gateway_for()
    client = await gateway.connect()
    for _ in range(before):
        client.send(HEALTHZ)
        assert (await client.response()).status == 200
    client.send(f"GET / HTTP/1.1\r\nHost: a\r\nX{CANARY}\x00: {CANARY}\r\n\r\n".encode())
    answer = await client.eof()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert CANARY.encode() not in answer
    assert b"aiohttp" not in answer


@pytest.mark.clause("4-1", "4-4")
async def test_a_handler_that_fails_is_an_error_of_the_api(gateway_for, monkeypatch):
    async def fail(exchange):
        raise RuntimeError(CANARY)

    gateway = await gateway_for()
    monkeypatch.setattr(gateway.gateway.ports.http1, "_dispatch", fail)
    client = await gateway.connect()
    client.send(HEALTHZ)
    response = await client.response()
    assert_api_error(response, 500, "InternalServerError")
    assert response.json == {"Message": "the gateway failed; its log has the reason"}
    assert await client.eof() == b""


async def test_a_tunnel_is_refused_and_its_connection_closed(gateway_for):
    gateway = await gateway_for()
    client = await gateway.connect()
    client.send(b"CONNECT model:80 HTTP/1.1\r\nHost: model:80\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n")
    response = await client.response()
    assert response.status == 404
    assert await client.eof() == b""


async def test_what_follows_a_refused_upgrade_is_no_request(gateway_for):
    """It may be frames, and frames may look like a request."""
    gateway = await gateway_for()
    client = await gateway.connect()
    client.send(upgrade_request("/nowhere"), HEALTHZ)
    assert (await client.response()).status == 404
    assert await client.eof() == b""


async def test_requests_of_one_connection_are_answered_in_order(gateway_for):
    gateway = await gateway_for()
    client = await gateway.connect()
    client.send(HEALTHZ, HEALTHZ.replace(b"/healthz", b"/nowhere"), HEALTHZ)
    assert [(await client.response()).status for _ in range(3)] == [200, 404, 200]


async def test_a_request_with_a_body_is_answered_and_its_body_skipped(gateway_for):
    gateway = await gateway_for()
    client = await gateway.connect()
    client.send(
        b"POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(HEALTHZ), HEALTHZ
    )
    assert (await client.response()).status == 404
    client.send(HEALTHZ)
    assert (await client.response()).status == 200


async def test_ids_of_requests_differ_and_a_clients_own_is_ignored(gateway_for):
    gateway = await gateway_for()
    request = b"GET /healthz HTTP/1.1\r\nHost: a\r\nx-amzn-requestid: mine\r\n\r\n"
    ids = {(await gateway.request(request)).headers["x-amzn-requestid"] for _ in range(3)}
    assert len(ids) == 3
    assert "mine" not in ids


# --- Secrets -------------------------------------------------------------------------------------

CANARY = "canary7f3a"
SECRET_HEADERS = [
    f"Authorization: Bearer {CANARY}",
    f"Cookie: session={CANARY}",
    f"X-Amz-Security-Token: {CANARY}",
    f"X-Amzn-SageMaker-Custom-Attributes: {CANARY}",
]
SECRET_TARGET = f"{STREAM_PATH}?access_token={CANARY}&X-Amz-Signature={CANARY}"

SECRET_REQUESTS = {
    "unknown subprotocol": upgrade_request(SECRET_TARGET, CANARY, SECRET_HEADERS),
    "unknown endpoint": upgrade_request(
        SECRET_TARGET.replace("/model/", "/nobody/"), None, SECRET_HEADERS
    ),
    "unknown path": upgrade_request(f"/nowhere/{CANARY}?{CANARY}", None, SECRET_HEADERS),
    "bad path": upgrade_request(f"{STREAM_PATH}?path=../{CANARY}", None, SECRET_HEADERS),
    "bad query": upgrade_request(f"{STREAM_PATH}?query={CANARY}", None, SECRET_HEADERS),
    "bad variant": upgrade_request(f"{STREAM_PATH}?variant=-{CANARY}", None, SECRET_HEADERS),
    "foreign origin": upgrade_request(SECRET_TARGET, RAW, SECRET_HEADERS, Origin=f"https://{CANARY}"),
    "bad key": upgrade_request(SECRET_TARGET, RAW, SECRET_HEADERS, Sec_WebSocket_Key=CANARY),
    "bad header": upgrade_request(SECRET_TARGET, RAW, [*SECRET_HEADERS, f"{CANARY}\x00: {CANARY}"]),
    "bad request line": f"GET /?access_token={CANARY} {CANARY} HTTP/1.1\r\n\r\n".encode(),
    "bad target": f"GET http://[{CANARY}/ HTTP/1.1\r\nHost: a\r\n\r\n".encode(),
    "bad length": f"POST / HTTP/1.1\r\nContent-Length: {CANARY}\r\n\r\n".encode(),
    "no HTTP": f"\x00{CANARY}\r\n\r\n".encode(),
    "long line": f"GET /{CANARY * 2000} HTTP/1.1\r\n\r\n".encode(),
}  # fmt: skip


@pytest.mark.parametrize("request_", SECRET_REQUESTS.values(), ids=SECRET_REQUESTS)
async def test_a_refused_request_leaves_no_secret_in_the_log(gateway_for, caplog, request_):
    caplog.set_level(logging.DEBUG)
    gateway = await gateway_for()
    client = await gateway.connect()
    client.send(request_)
    assert (await client.read_head()).split(b" ")[1][:1] == b"4"
    await client.eof()
    assert caplog.records  # it was logged, and without a secret
    assert CANARY not in log_text(caplog)
    assert CANARY not in await metrics_of(gateway)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
async def test_a_stream_leaves_no_secret_in_log_and_metrics(gateway_for, caplog, dialect):
    """Neither credentials nor what is said, however the stream ends."""
    caplog.set_level(logging.DEBUG)
    gateway = await gateway_for()
    spoken = dialect()
    secret = CANARY.encode()
    for end in ("model", "fault", "frames", "cut"):
        client, model = await gateway.open(spoken.name, SECRET_TARGET, SECRET_HEADERS)
        client.send(spoken.part(Part(secret)))
        assert (await model.frame()).payload == secret
        model.send(frame(BINARY, secret))
        assert (await spoken.read(client)).payload == secret
        if end == "model":
            model.send(close(1011, secret))
        elif end == "fault":
            client.send(frame(TEXT, b"{" + secret, mask=KEY), b"\x82\x05" + secret)
        elif end == "frames":
            model.send(b"\xff" + secret)
        else:
            client.reset()
        await model.until_close()
        spoken = dialect()
    assert len([r for r in caplog.records if "stream ended" in r.getMessage()]) == 4
    assert CANARY not in log_text(caplog)
    assert CANARY not in await metrics_of(gateway)


def log_text(caplog):
    """Everything that any handler could write of the records, arguments and tracebacks included."""
    formatter = logging.Formatter("%(message)s %(name)s")
    return "\n".join(f"{formatter.format(each)} {each.args!r}" for each in caplog.records)


async def metrics_of(gateway):
    page = await gateway.request(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
    return page.body.decode()
