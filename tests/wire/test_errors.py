"""Errors over HTTP before a stream begins (section 4)."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.limits import REPEATED_LINES
from partway.gateway.network.dialling import Address
from partway.protocol.limits import LOGGED_CHARACTERS
from tests.frame_factory import close
from tests.wire.peers import (
    RAW,
    STREAM_PATH,
    RawContainer,
    accept_key,
    eventually,
    soon,
    switching,
    upgrade_request,
)

UPGRADE = upgrade_request(subprotocols=RAW)


def assert_error(response, status, name, members):
    """Clause 4-1: status, header, content type, and the members of the body."""
    assert response.status == status
    assert response.headers["x-amzn-errortype"] == name
    assert response.headers["content-type"] == "application/json"
    assert len(response.headers["x-amzn-requestid"]) == 36
    assert set(response.json) == members
    assert response.json["Message"]


def assert_model_error(response, original_status, original_message=""):
    """Clause 4-3."""
    members = {"Message", "OriginalStatusCode", "OriginalMessage", "LogStreamArn", "ErrorCode"}
    assert_error(response, 424, "ModelError", members)
    assert response.json["OriginalStatusCode"] == original_status
    assert response.json["OriginalMessage"] == original_message
    assert response.json["LogStreamArn"] == ""
    assert response.json["ErrorCode"] == "ModelError"


def input_error(response, code):
    """Clause 4-2."""
    assert_error(response, 400, "InputValidationError", {"Message", "ErrorCode"})
    assert response.json["ErrorCode"] == code


# --- The container says no -----------------------------------------------------------------------


def refusal(status, body=b"", *headers):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


REFUSALS = {
    "403": (refusal("403 Forbidden", b"who are you?"), 403, "who are you?"),
    "404 without a body": (refusal("404 Not Found"), 404, ""),
    "503": (refusal("503 Busy", b'{"error":"busy"}'), 503, '{"error":"busy"}'),
    "200: a page": (refusal("200 OK", b"requests_total 17"), 200, ""),
    "206: some of it": (refusal("206 Partial Content", b"requests"), 206, ""),
    "302": (refusal("302 Found", b"", "Location: /elsewhere"), 302, ""),
    "401": (refusal("401 No", b"", "WWW-Authenticate: Basic realm=x"), 401, ""),
    "426": (refusal("426 Upgrade Required", b"", "Sec-WebSocket-Version: 8"), 426, ""),
    "599": (refusal("599 Odd"), 599, ""),
    "chunked": (
        b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n1\r\n!\r\n0\r\n\r\n",
        500,
        "first!",
    ),
    "after a 103": (b"HTTP/1.1 103 Early Hints\r\n\r\n" + refusal("418 Pot", b"tea"), 418, "tea"),
    "not UTF-8": (refusal("400 Bad", b"\xff!"), 400, "\ufffd!"),
    "2048 bytes": (refusal("500 Oops", b"x" * 2048), 500, "x" * 2048),
    "2049 bytes": (refusal("500 Oops", b"x" * 2048 + b"y"), 500, "x" * 2048),
    "a megabyte": (refusal("500 Oops", b"x" * (1 << 20)), 500, "x" * 2048),
    "an endless body": (
        b"HTTP/1.1 500 Oops\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 4096,
        500,
        "x" * 2048,
    ),
}


@pytest.mark.clause("4-1", "4-3", "4-6")
@pytest.mark.parametrize(("answer", "status", "message"), REFUSALS.values(), ids=REFUSALS)
async def test_a_refusal_is_passed_on_with_status_and_body(gateway_for, answer, status, message):
    async with RawContainer(lambda request: answer) as container:
        gateway = await gateway_for(container=container)
        assert_model_error(await gateway.request(UPGRADE), status, message)
        model = await container.stream()
        assert await model.eof() == b""
        assert len(container.connections) == 1


@pytest.mark.clause("4-6")
@pytest.mark.parametrize("how", ["end", "reset"])
async def test_a_refusal_that_breaks_off_keeps_its_status(gateway_for, how):
    async with RawContainer(lambda request: None) as container:
        gateway = await gateway_for(container=container)
        client = await gateway.connect()
        client.send(UPGRADE)
        model = await container.stream()
        model.send(b"HTTP/1.1 429 Slow Down\r\nContent-Length: 100\r\n\r\nhalf")
        if how == "end":
            model.end()
            assert_model_error(await client.response(), 429, "half")
        else:
            model.reset()  # it may overtake the bytes
            assert (await client.response()).json["OriginalStatusCode"] in (429, 0)


@pytest.mark.clause("4-6")
async def test_a_refusal_whose_body_never_ends_keeps_its_status(gateway_for):
    async with RawContainer(
        lambda request: b"HTTP/1.1 429 Slow Down\r\nContent-Length: 100\r\n\r\nhalf"
    ) as container:
        gateway = await gateway_for(StreamPolicy(handshake_timeout=0.5), container)
        assert_model_error(await gateway.request(UPGRADE), 429, "half")


@pytest.mark.clause("4-6")
async def test_a_redirect_is_not_followed(gateway_for):
    async with RawContainer() as elsewhere:
        where = f"http://127.0.0.1:{elsewhere.port}/"
        answer = refusal("307 Temporary Redirect", b"gone", f"Location: {where}")
        async with RawContainer(lambda request: answer) as container:
            gateway = await gateway_for(container=container)
            assert_model_error(await gateway.request(UPGRADE), 307, "gone")
            assert elsewhere.connections == []


# --- The container says nothing, or nonsense -----------------------------------------------------

NO_ANSWERS = {
    "wrong accept key": lambda request: switching(request, accept=accept_key("another")),
    "no accept key": lambda request: switching(request).replace(b"Accept: ", b"X: "),
    "an extension": lambda request: switching(
        request, "Sec-WebSocket-Extensions: permessage-deflate"
    ),
    "a subprotocol": lambda request: switching(request, f"Sec-WebSocket-Protocol: {RAW}"),
    "another upgrade": lambda request: switching(request).replace(b": websocket", b": h2c"),
    "no Connection": lambda request: switching(request).replace(b"Connection: Upgrade\r\n", b""),
    "garbage": lambda request: b"\x00\x01\x02 hello\r\n\r\n",
    "another protocol": lambda request: b"SSH-2.0-OpenSSH_9.6\r\n",
    "an endless head": lambda request: b"HTTP/1.1 101 Yes\r\n" + b"X: y\r\n" * 20_000,
    "an endless line": lambda request: b"HTTP/1.1 101 " + b"y" * 100_000,
}


@pytest.mark.clause("4-3", "4-6")
@pytest.mark.parametrize("answer", NO_ANSWERS.values(), ids=NO_ANSWERS)
async def test_what_is_no_valid_answer_is_a_424_without_status(gateway_for, answer):
    async with RawContainer(answer) as container:
        # What has no end of a line yet might still become an answer.
        gateway = await gateway_for(StreamPolicy(handshake_timeout=0.2), container)
        assert_model_error(await gateway.request(UPGRADE), 0)
        model = await container.stream()
        assert await model.eof() == b""


@pytest.mark.clause("4-6")
@pytest.mark.parametrize("how", ["end", "reset", "abort"])
@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 101 Switch"])
async def test_an_end_before_the_answer_is_a_424(gateway_for, how, before):
    async with RawContainer(lambda request: before) as container:
        gateway = await gateway_for(container=container)
        client = await gateway.connect()
        client.send(UPGRADE)
        model = await container.stream()
        getattr(model, how)()
        assert_model_error(await client.response(), 0)


@pytest.mark.clause("4-6")
async def test_a_refused_connection_is_a_424(gateway_for):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        free = listening.getsockname()[1]
    gateway = await gateway_for(address=Address("127.0.0.1", free))
    response = await gateway.request(UPGRADE)
    assert_model_error(response, 0)
    assert "refused" in response.json["Message"].lower()


@pytest.mark.clause("4-6")
async def test_the_operator_has_one_line_of_a_refused_stream_and_the_client_no_address(
    gateway_for, caplog
):
    async with RawContainer(lambda request: refusal("503 Full")) as container:
        gateway = await gateway_for(container=container)
        with caplog.at_level(logging.INFO):
            response = await gateway.request(UPGRADE)
    (record,) = [each for each in caplog.records if each.name.startswith("partway")]
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        f"refused request_id={response.headers['x-amzn-requestid']} peer=127.0.0.1 "
        f"endpoint=model container=http://127.0.0.1:{container.port} status=424 error=ModelError "
        'reason="the container refused the stream with status 503"'
    )
    assert str(container.port) not in f"{response.headers} {response.json}"


@pytest.mark.parametrize(
    ("said", "logged"),
    [
        ("set PARTWAY_VOICE_HEARS\n", "set PARTWAY_VOICE_HEARS"),
        ("no\r\n2026-01-01 INFO forged\x1b[2J", "no 2026-01-01 INFO forged\\u001b[2J"),
        ("x" * 2000, "x" * 100),
        (" \n", ""),
    ],
)
async def test_the_operator_has_the_words_of_a_container_that_refuses(
    gateway_for, caplog, said, logged
):
    head = f"HTTP/1.1 400 No\r\nContent-Length: {len(said)}\r\n\r\n"
    async with RawContainer(lambda request: f"{head}{said}".encode()) as container:
        gateway = await gateway_for(container=container)
        with caplog.at_level(logging.INFO):
            response = await gateway.request(UPGRADE)
    assert response.json["Message"] == "the container refused the stream with status 400"
    (line,) = [each.getMessage() for each in caplog.records if each.name.startswith("partway")]
    reason = "the container refused the stream with status 400"
    assert f'reason="{reason}: {logged}' in line if logged else line.endswith(f'"{reason}"')
    assert line.isprintable()
    assert len(line) < LOGGED_CHARACTERS + 300


@pytest.mark.parametrize("what", ["refused", "bad request"])
async def test_what_one_client_is_refused_again_and_again_is_a_few_lines(gateway_for, caplog, what):
    caplog.set_level(logging.INFO)
    gateway = await gateway_for()
    wrong = upgrade_request("/nowhere") if what == "refused" else b"GET / HTTP/1.1\r\n:\r\n\r\n"
    for _ in range(REPEATED_LINES + 5):
        assert (await gateway.request(wrong)).status // 100 == 4
    lines = [each.getMessage() for each in caplog.records if each.name.startswith("partway")]
    assert [line.startswith(f"{what} ") for line in lines] == [True] * REPEATED_LINES
    assert all(" peer=127.0.0.1 " in line for line in lines)


@pytest.mark.clause("4-6")
async def test_a_connection_that_is_not_accepted_in_250_ms_is_a_424(gateway_for):
    """A listening socket whose backlog is full: the kernel answers no further SYN."""
    waiting = []
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening:
        try:
            for _ in range(8):
                sock = socket.socket()
                waiting.append(sock)
                sock.setblocking(False)
                sock.connect_ex(listening.getsockname())
            where = Address(*listening.getsockname())
            gateway = await gateway_for(StreamPolicy(), address=where)
            started = asyncio.get_running_loop().time()
            response = await gateway.request(UPGRADE)
            took = asyncio.get_running_loop().time() - started
        finally:
            for sock in waiting:
                sock.close()
    assert_model_error(response, 0)
    assert "no connection was accepted within 250 ms" in response.json["Message"]
    assert 0.2 < took < 10, "the system would wait for minutes"


@pytest.mark.clause("4-6")
async def test_no_answer_within_the_time_for_it_is_a_424(gateway_for):
    async with RawContainer(lambda request: b"HTTP/1.1 101 Swi") as container:
        gateway = await gateway_for(StreamPolicy(handshake_timeout=0.1), container)
        response = await gateway.request(UPGRADE)
        assert_model_error(response, 0)
        assert "no answer to the upgrade within 0.1 s" in response.json["Message"]
        model = await container.stream()
        assert await model.eof() == b""


async def test_a_refused_upgrade_closes_the_connection_and_says_so(gateway_for):
    async with RawContainer(lambda request: refusal("403 No")) as container:
        gateway = await gateway_for(container=container)
        client = await gateway.connect()
        client.send(UPGRADE)
        response = await client.response()
        assert_model_error(response, 403)
        assert response.headers["connection"] == "close"
        assert await client.eof() == b""


async def test_a_client_that_leaves_meanwhile_frees_its_place_at_once(gateway_for, caplog):
    """The container has not answered yet, and need not any more."""
    caplog.set_level(logging.DEBUG)
    async with RawContainer(lambda request: None) as container:
        gateway = await gateway_for(container=container, max_streams=1)
        client = await gateway.connect()
        client.send(UPGRADE)
        model = await container.stream()
        client.reset()
        assert await model.eof() == b""
        following = await gateway.connect()
        following.send(UPGRADE)
        model = await container.stream()
        model.send(switching(model.request))
        assert (await following.read_head()).startswith(b"HTTP/1.1 101 ")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "client left" in caplog.text


# --- The request is wrong ------------------------------------------------------------------------

BAD_UPGRADES = {
    "no upgrade": (f"GET {STREAM_PATH} HTTP/1.1\r\nHost: a\r\n\r\n".encode(), 400),
    "POST": (
        f"POST {STREAM_PATH} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        "Content-Length: 2\r\n\r\n{}".encode(),
        400,
    ),
    "upgrade to something else": (upgrade_request(Upgrade="h2c"), 400),
    "no Connection": (upgrade_request(Connection=None), 400),
    "Connection without upgrade": (upgrade_request(Connection="keep-alive"), 400),
    "no key": (upgrade_request(Sec_WebSocket_Key=None), 400),
    "key of 15 bytes": (upgrade_request(Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25j"), 400),
    "key that is no base64": (upgrade_request(Sec_WebSocket_Key="!" * 24), 400),
    "no version": (upgrade_request(Sec_WebSocket_Version=None), 426),
    "version 8": (upgrade_request(Sec_WebSocket_Version="8"), 426),
    "HTTP/1.0": (upgrade_request().replace(b" HTTP/1.1", b" HTTP/1.0"), 400),
    "HTTP/0.9": (upgrade_request().replace(b" HTTP/1.1", b""), 400),
    "POST that upgrades": (upgrade_request().replace(b"GET ", b"POST "), 405),
}


@pytest.mark.clause("4-1", "4-2", "4-6")
@pytest.mark.parametrize(("request_", "status"), BAD_UPGRADES.values(), ids=BAD_UPGRADES)
async def test_what_is_no_upgrade_is_an_input_validation_error(gateway_for, request_, status):
    gateway = await gateway_for()
    response = await gateway.request(request_)
    assert_error(response, status, "InputValidationError", {"Message", "ErrorCode"})
    if status == 426:
        assert response.headers["sec-websocket-version"] == "13"
    assert gateway.container.connections == []


@pytest.mark.clause("4-2", "4-6")
@pytest.mark.parametrize("name", ["nobody", "Model", "mode", "models"])
async def test_an_unknown_endpoint_is_a_400(gateway_for, name):
    gateway = await gateway_for()
    target = STREAM_PATH.replace("/model/", f"/{name}/")
    input_error(await gateway.request(upgrade_request(target)), "EndpointNotFound")


@pytest.mark.clause("4-7")
@pytest.mark.parametrize(
    "name",
    ["-a", "a-", "a_b", "a.b", "..", "..%2f..%2fmodel", "%2e%2e", "model%00", "model%0d%0aX:1",
     "a" * 64, "m%C3%B6del", "model%20", "%20model", "model%", "model;x", "@evil.example"],
)  # fmt: skip
async def test_names_that_are_refused(gateway_for, name):
    gateway = await gateway_for()
    target = STREAM_PATH.replace("/model/", f"/{name}/")
    input_error(await gateway.request(upgrade_request(target)), "InvalidEndpointName")


@pytest.mark.clause("4-7")
@pytest.mark.parametrize("name", ["a" * 63, "a--b", "0", "A1-b2"])
async def test_names_that_are_names_but_unknown(gateway_for, name):
    gateway = await gateway_for()
    target = STREAM_PATH.replace("/model/", f"/{name}/")
    input_error(await gateway.request(upgrade_request(target)), "EndpointNotFound")


@pytest.mark.parametrize(
    "target",
    [STREAM_PATH.replace("/model/", "/%6dod%65l/"), f"/base/path{STREAM_PATH}", f"{STREAM_PATH}?"],
)
async def test_spellings_of_the_path_that_are_tolerated(gateway_for, target):
    gateway = await gateway_for()
    await gateway.open(RAW, target)


@pytest.mark.parametrize(
    "target",
    ["/", "/endpoints/model", f"{STREAM_PATH}/", "/endpoints//invocations-bidirectional-stream",
     STREAM_PATH.upper(), "http://evil.example/x", "/endpoints/a/b/c"],
)  # fmt: skip
async def test_other_paths_are_a_404(gateway_for, target):
    gateway = await gateway_for()
    response = await gateway.request(upgrade_request(target))
    assert_error(response, 404, "UnknownOperationException", {"Message"})
    assert gateway.container.connections == []


# --- The gateway cannot --------------------------------------------------------------------------


@pytest.mark.clause("4-4", "4-6")
async def test_a_full_gateway_answers_503_until_a_stream_ends(gateway_for):
    gateway = await gateway_for(max_streams=1)
    _, model = await gateway.open(RAW)
    response = await gateway.request(UPGRADE)
    assert_error(response, 503, "ServiceUnavailableError", {"Message", "ErrorCode"})
    model.send(close(1000))
    await model.until_close()
    await gateway.open(RAW)


@pytest.mark.clause("4-6")
async def test_a_stream_that_is_being_opened_counts(gateway_for):
    async with RawContainer(lambda request: None) as container:
        gateway = await gateway_for(container=container, max_streams=1)
        client = await gateway.connect()
        client.send(UPGRADE)
        model = await container.stream()
        assert (await gateway.request(UPGRADE)).status == 503
        model.send(refusal("403 No"))
        assert (await client.response()).status == 424
        again = await gateway.connect()
        again.send(UPGRADE)
        await container.stream()


@pytest.mark.clause("4-4", "4-6")
async def test_a_draining_gateway_answers_503(gateway_for):
    gateway = await gateway_for(shutdown_grace=30.0)
    client, model = await gateway.open(RAW)
    assert (await gateway.request(b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n")).status == 200
    draining = asyncio.create_task(gateway.gateway.drain())
    await eventually(lambda: gateway.gateway.streams.draining)
    response = await gateway.request(UPGRADE)
    assert_error(response, 503, "ServiceUnavailableError", {"Message", "ErrorCode"})
    assert (await gateway.request(b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n")).status == 503
    assert (await gateway.request(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")).status == 200
    model.send(close(1000, b"last one out"))  # streams may end by themselves
    assert (await client.frame()).close_reason == "last one out"
    client.send_close(1000)
    model.end()
    await soon(draining, "the drain")


@pytest.mark.clause("4-4")
async def test_a_fault_of_the_gateway_is_a_500_that_tells_nothing(gateway_for, caplog):
    async def fail(*_):
        raise RuntimeError("internal detail")

    gateway = await gateway_for(dialler=fail)
    response = await gateway.request(UPGRADE)
    assert_error(response, 500, "InternalServerError", {"Message"})
    assert b"detail" not in response.body
    assert "RuntimeError: internal detail" in caplog.text
    assert response.headers["x-amzn-requestid"] in caplog.text


async def test_each_refusal_is_logged_and_counted_by_name(gateway_for, caplog):
    caplog.set_level(logging.INFO)
    gateway = await gateway_for()
    for request in (
        upgrade_request(subprotocols="unknown"),
        upgrade_request(Sec_WebSocket_Version="8"),
        upgrade_request("/nowhere"),
    ):
        response = await gateway.request(request)
        line = caplog.messages[-1]
        assert line.startswith(f"refused request_id={response.headers['x-amzn-requestid']} ")
        assert f"status={response.status} error={response.headers['x-amzn-errortype']} " in line
    page = await gateway.request(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
    assert b'partway_requests_refused_total{error="InputValidationError"} 2.0\n' in page.body
    assert b'partway_requests_refused_total{error="UnknownOperationException"} 1.0\n' in page.body


@pytest.mark.clause("4-6")
async def test_a_stream_that_is_being_opened_when_the_gateway_drains_is_a_503(gateway_for):
    async with RawContainer(lambda request: None) as container:
        gateway = await gateway_for(container=container)
        client = await gateway.connect()
        client.send(UPGRADE)
        model = await container.stream()
        draining = asyncio.create_task(gateway.gateway.drain())
        response = await client.response()
        assert_error(response, 503, "ServiceUnavailableError", {"Message", "ErrorCode"})
        assert await model.eof() == b""
        await soon(draining, "the drain")
