"""partway.gateway.aiohttp_app.exchange: streams and requests through aiohttp's server."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from partway.gateway.apis.requests_service import RequestsService
from partway.protocol.limits import MIB
from tests.frame_factory import TEXT, close, frame
from tests.gateway.aiohttp_app.served import PREFIX
from tests.gateway.containers.containers import OK, ScriptedContainer
from tests.wire.chunked_peers import RawChunkedClient, chunk, chunked_head
from tests.wire.event_dialect import Http1EventClient
from tests.wire.event_messages import part_event
from tests.wire.peers import (
    ENDPOINT,
    RAW,
    STREAM_PATH,
    RawClient,
    RawContainer,
    eventually,
    soon,
    upgrade_request,
)

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

STREAM = f"{PREFIX}{STREAM_PATH}"
INVOKE = f"{PREFIX}/endpoints/{ENDPOINT}/invocations"


def post(path: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: a", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def saying(*said):
    """A container that answers each request with these bytes."""

    async def script(call):
        while True:
            await call.request()
            call.say(*said)

    return script


# --- WebSocket -----------------------------------------------------------------------------------


async def test_a_stream_goes_both_ways_and_ends_in_order(application_for):
    served = await application_for()
    client, model = await served.wire.open(RAW, STREAM)
    client.send_frame(TEXT, b"hi")
    assert (await model.frame()).payload == b"hi"
    model.send(frame(TEXT, b"ho"), close(1000))
    assert (await client.frame()).payload == b"ho"
    client.send_close(1000)
    (*_, last) = await client.until_close()
    assert last.payload[:2] == (1000).to_bytes(2)
    await client.eof()
    await eventually(lambda: sum(served.wire.causes().values()) == 1)
    assert served.wire.causes() == {"model_closed": 1}


async def test_frames_behind_the_head_of_an_upgrade_are_the_streams(application_for):
    served = await application_for()
    client = await served.wire.connect()
    behind = frame(TEXT, b"at once", mask=b"abcd")
    await client.upgrade(upgrade_request(STREAM, RAW) + behind)
    model = await served.wire.container.stream()
    assert (await model.frame()).payload == b"at once"


async def test_a_stream_over_tls(application_for):
    served = await application_for(tls=True)
    context = served.client_context()
    streams = await asyncio.open_connection(
        "127.0.0.1", served.tls_port, ssl=context, server_hostname="localhost"
    )
    client = RawClient(*streams)
    served.wire.clients.append(client)
    await client.upgrade(upgrade_request(STREAM, RAW))
    model = await served.wire.container.stream()
    client.send_frame(TEXT, b"hi")
    assert (await model.frame()).payload == b"hi"
    model.send(frame(TEXT, b"ho" * MIB))
    assert (await client.frame()).payload == b"ho" * MIB


@pytest.mark.parametrize("cancels", [False, True], ids=["", "handler_cancellation"])
async def test_a_client_that_leaves_ends_its_stream_at_the_container(application_for, cancels):
    served = await application_for(handler_cancellation=cancels)
    client, model = await served.wire.open(RAW, STREAM)
    client.abort()
    (last,) = await model.until_close()
    assert last.opcode == 8
    await eventually(lambda: not served.runner.server.connections)
    assert sum(served.wire.causes().values()) == 1


async def test_a_refused_upgrade_is_an_answer_behind_which_the_connection_ends(application_for):
    served = await application_for()
    client = await served.wire.connect()
    client.send(upgrade_request(f"{PREFIX}/endpoints/none/invocations-bidirectional-stream", RAW))
    response = await client.response()
    assert (response.status, response.json["ErrorCode"]) == (400, "EndpointNotFound")
    assert await client.eof() == b""


# --- Event streams -------------------------------------------------------------------------------


async def test_an_event_stream_goes_both_ways(application_for):
    served = await application_for(policy={"input_end": "drain"})
    client = await Http1EventClient.open(served.port, STREAM)
    served.wire.clients.append(client)
    model = await served.wire.container.stream()
    client.send(part_event(b"hi", "UTF8"))
    assert (await model.frame()).payload == b"hi"
    model.send(frame(TEXT, b"ho"))
    assert (await client.event()).payload == b"ho"
    model.send(close(1000))
    assert await client.ended() == ("LAST_CHUNK", "EOF")


async def test_a_broken_chunk_cuts_an_event_stream(application_for):
    served = await application_for()
    client = await Http1EventClient.open(served.port, STREAM)
    served.wire.clients.append(client)
    model = await served.wire.container.stream()
    client.wire.send(b"this is no chunk\r\n")
    await model.until_close()
    assert "LAST_CHUNK" not in await client.ended()


async def test_a_slow_client_holds_the_container_back(application_for):
    served = await application_for()
    client = await Http1EventClient.open(served.port, STREAM, receive_buffer=4096)
    served.wire.clients.append(client)
    client.wire.writer.transport.pause_reading()
    model = await served.wire.container.stream()
    (session,) = served.gateway.streams.sessions
    model.send(*[frame(TEXT, b"x" * MIB)] * 32)
    await eventually(lambda: not session.container._connection.reading)
    assert session.buffered_bytes < 4 * MIB
    assert session.from_container.bytes < 16 * MIB


async def test_a_slow_container_holds_the_client_back(application_for):
    async with RawContainer(receive_buffer=4096) as container:
        served = await application_for(container_port=container.port)
        client = await Http1EventClient.open(served.port, STREAM)
        served.wire.clients.append(client)
        await container.stream()
        (session,) = served.gateway.streams.sessions
        (connection,) = served.runner.server.connections
        for _ in range(32):
            client.send(part_event(b"x" * MIB))
        await eventually(lambda: not connection.transport.is_reading())
        assert session.buffered_bytes < 4 * MIB
        assert session.from_client.bytes < 16 * MIB


# --- Requests with one answer --------------------------------------------------------------------


async def test_a_request_is_answered_with_its_id_and_the_connection_kept(application_for):
    async with ScriptedContainer(saying(OK)) as container:
        served = await application_for(container_port=container.port)
        client = await served.wire.connect()
        for _ in range(2):
            client.send(post(INVOKE, b"question"))
            response = await client.response()
            assert (response.status, response.body) == (200, b"ok")
            assert response.headers["x-amzn-requestid"]


async def test_the_applications_bound_of_bodies_is_not_the_gateways(application_for):
    asked = []

    async def script(call):
        asked.append(await call.request())
        call.say(OK)

    async with ScriptedContainer(script) as container:
        app = web.Application(client_max_size=10)
        served = await application_for(app, container_port=container.port)
        answer = await served.wire.request(post(INVOKE, b"x" * 2 * MIB))
    assert (answer.status, len(asked[0])) == (200, 2 * MIB)


async def test_a_body_over_the_gateways_bound_is_refused(application_for):
    served = await application_for(max_invocation_body=1000)
    head = chunked_head([(":method", "POST"), (":path", INVOKE), (":authority", "a")])
    client = await served.wire.connect()
    client.send(head, chunk(b"x" * 1001))
    answer = await client.response()
    assert answer.status == 400
    assert "1000 bytes" in answer.json["Message"]


async def test_a_client_is_told_to_send_its_body_once_that_is_wanted(application_for):
    async with ScriptedContainer(saying(OK)) as container:
        served = await application_for(container_port=container.port)
        client = await served.wire.connect()
        whole = post(INVOKE, b"question", "Expect: 100-continue")
        client.send(whole.removesuffix(b"question"))
        assert (await client.read_head()).startswith(b"HTTP/1.1 100 ")
        client.send(b"question")
        assert (await client.response()).body == b"ok"


async def test_a_refused_client_sends_no_body_and_its_connection_ends(application_for):
    served = await application_for()
    client = await served.wire.connect()
    client.send(post(f"{PREFIX}/nothing", b"body", "Expect: 100-continue").removesuffix(b"body"))
    assert (await client.response()).status == 404
    assert await client.eof() == b""


async def test_a_broken_body_is_refused_once(application_for, caplog):
    called = asyncio.Event()

    async def script(call):
        await call.head()
        called.set()
        await call.end()

    async with ScriptedContainer(script) as container:
        served = await application_for(container_port=container.port)
        head = chunked_head([(":method", "POST"), (":path", INVOKE), (":authority", "a")])
        client = await served.wire.connect()
        client.send(head, chunk(b"question"))
        await soon(called.wait(), "the container")
        client.send(b"no chunk\r\n")
        answer = await client.response()
        assert (answer.status, "not valid HTTP/1.1" in answer.json["Message"]) == (400, True)
        assert await client.eof() == b""
    assert "Unhandled exception" not in caplog.text


async def test_a_client_that_leaves_has_its_request_broken_off(application_for):
    called = asyncio.Event()

    async def script(call):
        await call.request()
        called.set()
        await call.end()

    async with ScriptedContainer(script) as container:
        served = await application_for(container_port=container.port)
        client = await served.wire.connect()
        client.send(post(INVOKE, b"question"))
        await soon(called.wait(), "the container")
        client.abort()
        await soon(container.calls[-1].ended.wait(), "the end of the request")
        await eventually(lambda: not len(served.gateway.service(RequestsService).under_way))


async def test_a_client_that_leaves_in_its_body_is_let_go(application_for):
    served = await application_for()
    client = await served.wire.connect()
    client.send(post(INVOKE, b"question").removesuffix(b"ion"))
    await eventually(lambda: served.runner.server.connections)
    client.abort()
    await eventually(lambda: not served.runner.server.connections)


@pytest.mark.parametrize(
    ("version", "how"), [("1.0", ConnectionResetError), ("1.1", asyncio.IncompleteReadError)]
)
async def test_an_answer_that_breaks_off_is_seen_to(application_for, version, how):
    """Of an answer in HTTP/1.0 only a reset says that it is not whole."""

    async def script(call):
        await call.request()
        call.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk(b"a"))
        await begun.wait()
        call.writer.transport.abort()

    begun = asyncio.Event()
    async with ScriptedContainer(script) as container:
        served = await application_for(container_port=container.port)
        client = await served.wire.connect()
        client.send(post(INVOKE, b"question").replace(b"HTTP/1.1", f"HTTP/{version}".encode()))
        await client.read_head()
        begun.set()
        with pytest.raises(how):
            await soon(client.reader.readuntil(b"0\r\n\r\n"), "the end of the answer")


async def test_an_answer_streams(application_for):
    async def script(call):
        await call.request()
        call.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk(b"a"))
        await answered.wait()
        call.say(chunk(b"b"), b"0\r\n\r\n")

    answered = asyncio.Event()
    async with ScriptedContainer(script) as container:
        served = await application_for(container_port=container.port)
        client = await RawChunkedClient.connect(served.port)
        served.wire.clients.append(client)
        client.send(post(f"{PREFIX}/endpoints/{ENDPOINT}/invocations-response-stream", b"question"))
        assert (await client.head())[0] == 200
        assert (await client.event()).payload == b"a"
        answered.set()
        assert (await client.event()).payload == b"b"


# --- What the application does with requests -----------------------------------------------------


async def test_a_middleware_sees_requests_and_whole_answers(application_for):
    @web.middleware
    async def marked(request, handler):
        response = await handler(request)
        response.headers["X-Seen"] = request.path
        return response

    async with ScriptedContainer(saying(OK)) as container:
        app = web.Application(middlewares=[marked])
        served = await application_for(app, container_port=container.port)
        answer = await served.wire.request(post(INVOKE, b"question"))
        assert answer.headers["x-seen"] == INVOKE


async def test_a_middleware_may_have_read_the_body(application_for):
    asked = []

    @web.middleware
    async def reading(request, handler):
        await request.read()
        return await handler(request)

    async def script(call):
        asked.append(await call.request())
        call.say(OK)

    async with ScriptedContainer(script) as container:
        app = web.Application(middlewares=[reading])
        served = await application_for(app, container_port=container.port)
        assert (await served.wire.request(post(INVOKE, b"question"))).status == 200
    assert asked == [b"question"]


async def test_what_the_application_adds_to_each_response_is_in_the_head_of_a_stream(
    application_for,
):
    async def add(request, response):
        response.headers["X-Of-App"] = "yes"

    app = web.Application()
    app.on_response_prepare.append(add)
    served = await application_for(app)
    client, _ = await served.wire.open(RAW, STREAM)
    assert b"X-Of-App: yes\r\n" in client.head
