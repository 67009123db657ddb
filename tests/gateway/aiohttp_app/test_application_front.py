"""partway.gateway.aiohttp_app.application_front: who is answered, signed how, and until when."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import socket

import pytest
from aiohttp import web
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from partway.gateway.aiohttp_app.setup import _GATEWAY
from tests.frame_factory import TEXT, frame
from tests.gateway.aiohttp_app.served import PREFIX
from tests.gateway.apis.aws_client import KEY, PRINCIPALS, REGION
from tests.gateway.containers.containers import OK, ScriptedContainer
from tests.wire.peers import ENDPOINT, RAW, STREAM_PATH, eventually, soon, upgrade_request

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

INVOKE = f"{PREFIX}/endpoints/{ENDPOINT}/invocations"


@pytest.fixture
def principals(tmp_path):
    file = tmp_path / "principals.toml"
    file.write_text(PRINCIPALS)
    file.chmod(0o600)
    return {"auth": "sigv4", "principals": file}


def post(path: str, body: bytes) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def answers(call):
    while True:
        await call.request()
        call.say(OK)


def asked(port, path, body=b"question", key=KEY, sent_path=None):
    """What a request is answered that botocore has signed for a path: status and body."""
    url = f"http://127.0.0.1:{port}{path}"
    request = AWSRequest("POST", url, {"Host": f"127.0.0.1:{port}"}, body)
    SigV4Auth(key, "sagemaker", REGION).add_auth(request)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("POST", sent_path or path, body, dict(request.headers))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


# --- Signatures ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", [INVOKE, INVOKE.replace("model/", "%6Dodel/"), f"{INVOKE}?b=2&a=%2F"]
)
async def test_a_signature_covers_the_path_that_was_sent(application_for, principals, path):
    async with ScriptedContainer(answers) as container:
        served = await application_for(container_port=container.port, **principals)
        assert await asyncio.to_thread(asked, served.port, path) == (200, b"ok")


@pytest.mark.parametrize(
    ("signed", "sent"),
    [
        (INVOKE.removeprefix(PREFIX), INVOKE),
        (INVOKE, INVOKE.replace("model/", "%6Dodel/")),
        (INVOKE, f"{INVOKE}?a=b"),
    ],
)
async def test_a_signature_of_another_path_is_refused(application_for, principals, signed, sent):
    served = await application_for(**principals)
    status, body = await asyncio.to_thread(asked, served.port, signed, sent_path=sent)
    assert status == 403
    assert "signature" in json.loads(body)["Message"]


async def test_a_signature_by_another_secret_is_refused(application_for, principals):
    served = await application_for(**principals)
    other = Credentials(KEY.access_key, "another-secret")
    assert (await asyncio.to_thread(asked, served.port, INVOKE, key=other))[0] == 403


# --- Who is answered -----------------------------------------------------------------------------


def other_address() -> str:
    """An address of this machine that is not its loopback; empty if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return ""
        return str(sock.getsockname()[0])


@pytest.mark.parametrize(("insecure", "status"), [(False, 403), (True, 200)])
async def test_without_authentication_only_this_machine_is_answered(
    application_for, insecure, status
):
    address = other_address()
    if not address:
        pytest.skip("this machine has no address but its loopback")
    served = await application_for(host="0.0.0.0", insecure=insecure)
    reader, writer = await asyncio.open_connection(address, served.port)
    writer.write(f"GET {PREFIX}/healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    answer = await soon(reader.read(), "an answer")
    writer.close()
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


async def test_a_page_of_another_origin_opens_no_stream(application_for):
    served = await application_for(allow_origins=frozenset({"https://chat.example"}))
    for origin, status in (("https://chat.example", 101), ("https://evil.example", 403)):
        client = await served.wire.connect()
        target = f"{PREFIX}{STREAM_PATH}"
        client.send(upgrade_request(target, RAW, [f"Origin: {origin}"]))
        assert (await client.read_head()).startswith(f"HTTP/1.1 {status} ".encode())


async def test_the_prefix_in_another_spelling_is_no_path(application_for):
    served = await application_for()
    answer = await served.wire.request(b"GET /mod%65ls/healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    assert answer.status == 404
    assert "must begin with /models" in answer.json["Message"]


async def test_a_body_that_the_server_has_decoded_is_refused(application_for):
    served = await application_for()
    body = gzip.compress(b"question")
    head = (
        f"POST {INVOKE} HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    answer = await served.wire.request(head.encode() + body)
    assert answer.status == 415
    assert "auto_decompress=False" in answer.json["Message"]


async def test_a_body_that_the_server_leaves_alone_is_passed_on_as_it_came(application_for):
    bodies = []

    async def script(call):
        bodies.append(await call.request())
        call.say(OK)

    body = gzip.compress(b"question")
    async with ScriptedContainer(script) as container:
        served = await application_for(container_port=container.port, auto_decompress=False)
        head = (
            f"POST {INVOKE} HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        assert (await served.wire.request(head.encode() + body)).status == 200
    assert bodies == [body]


# --- Handlers that are cancelled -----------------------------------------------------------------


class Limits:
    """A middleware that gives each handler a time, and answers 504 behind it.

    The time is over when a test says so.
    """

    def __init__(self) -> None:
        self.open: list[asyncio.Timeout] = []
        self.app = web.Application(middlewares=[self.limited])

    @web.middleware
    async def limited(self, request, handler):
        try:
            async with asyncio.timeout(None) as limit:
                self.open.append(limit)
                return await handler(request)
        except TimeoutError:
            return web.Response(status=504)

    def expire(self) -> None:
        (limit,) = self.open
        limit.reschedule(0)


@pytest.fixture
def limits():
    return Limits()


@pytest.mark.parametrize("client_of", [RAW, "http1"])
async def test_behind_a_cancelled_handler_nothing_is_in_its_stream(
    application_for, limits, client_of
):
    served = await application_for(limits.app)
    client, model = await served.wire.open(client_of, f"{PREFIX}{STREAM_PATH}")
    model.send(frame(TEXT, b"hi"))
    await (client.frame() if client_of == RAW else client.event())
    limits.expire()
    wire = client if client_of == RAW else client.wire
    assert await wire.eof() == b""
    await model.until_close()
    await eventually(lambda: served.wire.causes() == {"client_lost": 1})


async def test_behind_a_cancelled_handler_nothing_is_in_its_answer(application_for, limits):
    piece = b"10000\r\n%b\r\n" % (b"x" * 65_536)

    async def script(call):
        await call.request()
        call.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", piece * 320)
        await call.end()

    async with ScriptedContainer(script) as container:
        served = await application_for(limits.app, container_port=container.port)
        client = await served.wire.connect(receive_buffer=4096)
        client.writer.transport.pause_reading()
        client.send(post(INVOKE, b"question"))
        await eventually(lambda: any(each._paused for each in served.runner.server.connections))
        limits.expire()
        await soon(container.calls[-1].ended.wait(), "the end of the request")
        client.writer.transport.resume_reading()
        assert b"HTTP/1.1 504" not in await client.eof()


@pytest.mark.parametrize("operation", ["invocations", "invocations-response-stream"])
async def test_a_cancelled_handler_leaves_the_rest_of_a_body_alone(
    application_for, limits, caplog, operation
):
    served = await application_for(limits.app)
    client = await served.wire.connect()
    whole = post(f"{PREFIX}/endpoints/{ENDPOINT}/{operation}", b"question")
    client.send(whole.removesuffix(b"ion"))
    await eventually(lambda: any(map(reads_body, served.runner.server.connections)))
    limits.expire()
    assert (await client.response()).status == 504
    client.send(b"ion", f"GET {PREFIX}/healthz HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert (await client.response()).status == 200
    assert "Unhandled exception" not in caplog.text


def reads_body(connection) -> bool:
    request = connection._current_request
    return request is not None and request.content._waiter is not None


class Stubborn:
    """An operation that does not end when it is cancelled, until it is released."""

    def __init__(self) -> None:
        self.begun, self.released = asyncio.Event(), asyncio.Event()

    async def __call__(self, exchange) -> None:
        self.begun.set()
        try:
            await self.released.wait()
        finally:
            await self.released.wait()


async def test_an_operation_that_does_not_end_loses_the_connection(
    application_for, limits, monkeypatch
):
    monkeypatch.setattr("partway.gateway.aiohttp_app.application_front.HANDLER_CANCEL_TIMEOUT", 0.1)
    served = await application_for(limits.app)
    stubborn = served.app[_GATEWAY]._front._dispatch = Stubborn()
    client = await served.wire.connect()
    client.send(post(INVOKE, b"question"))
    await soon(stubborn.begun.wait(), "the operation")
    limits.expire()
    assert await client.eof() == b""
    stubborn.released.set()


async def test_a_handler_that_is_cancelled_again_does_not_wait_for_its_operation(application_for):
    stubborn = Stubborn()

    @web.middleware
    async def hasty(request, handler):
        handling = asyncio.create_task(handler(request))
        await stubborn.begun.wait()
        for _ in range(2):
            handling.cancel()
            await asyncio.sleep(0)
        await asyncio.wait((handling,))
        return web.Response(status=504)

    served = await application_for(web.Application(middlewares=[hasty]))
    served.app[_GATEWAY]._front._dispatch = stubborn
    client = await served.wire.connect()
    client.send(post(INVOKE, b"question"))
    assert await client.eof() == b""
    stubborn.released.set()


# --- The end -------------------------------------------------------------------------------------


async def test_a_request_that_does_not_end_is_broken_off(application_for):
    called = asyncio.Event()

    async def script(call):
        await call.request()
        called.set()
        await call.end()

    async with ScriptedContainer(script) as container:
        served = await application_for(container_port=container.port)
        client = await served.wire.connect()
        client.send(f"POST {INVOKE} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx".encode())
        await soon(called.wait(), "the container")
        stopping = asyncio.create_task(served.stop())
        assert (await client.response()).status == 503
        await soon(stopping, "the end of the application")


async def test_behind_the_drain_a_request_is_refused(application_for):
    served = await application_for()
    await served.app.shutdown()
    answer = await served.wire.request(f"GET {PREFIX}/healthz HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert (answer.status, "draining" in answer.json["Message"]) == (503, True)
