"""The hosting page's samples behind a gateway, and their requests at the container's own door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from partway.container.hosting.asgi import AppServer
from partway.container.shutdown import ShutdownTimes
from partway.gateway.fleet.stream_policy import StreamPolicy
from tests.conftest import ROOT
from tests.wire.dialects import BIN, CLEAN, COMPLETE, PARTIAL, UTF8, Error, MsgpackDialect, Part
from tests.wire.peers import STREAM_PATH, RawClient, RunningGateway, eventually, upgrade_request

SAMPLES = ROOT / "docs" / "examples" / "hosting"
BIDIRECTIONAL = "fastapi_bidirectional:app"
ENDS = "tests.container.hosting.apps.fastapi_ends:app"

NO_TIME = ShutdownTimes(grace=0, spread=0, hard=0.5)

#: The client reads the app's last word before it ends its input (clause 1.5-12).
ALL_IS_SAID = StreamPolicy(drain_timeout=0.05)


@pytest.fixture
async def serve(
    monkeypatch: pytest.MonkeyPatch, anyio_backend: object
) -> AsyncIterator[Callable[[str], Awaitable[AppServer]]]:
    """Serves apps by their names; the samples are modules."""
    monkeypatch.syspath_prepend(SAMPLES)
    async with AsyncExitStack() as running:

        async def start(name: str) -> AppServer:
            server = AppServer(name, times=NO_TIME)
            server.port = await server.start()
            stopped = asyncio.create_task(server.stopped())
            running.push_async_callback(lambda: stopped)
            running.callback(server.stop)
            await server.load()
            return server

        yield start


async def open_stream(gateway: RunningGateway, dialect: object, path: str = STREAM_PATH):
    """A client's end alone: the other is the app's."""
    if dialect.name in gateway.event_clients:
        client = await gateway.event_clients[dialect.name](gateway.port, path)
        gateway.clients.append(client)
        return client
    client = await gateway.connect()
    await client.upgrade(upgrade_request(path, dialect.name))
    return client


# --- The bidirectional sample, through a gateway --------------------------------------------------


@pytest.mark.clause("1.1-4", "1.2-3")
async def test_text_binary_and_fragments(gateway_for, serve, dialect):
    app = await serve(BIDIRECTIONAL)
    gateway = await gateway_for(container_port=app.port)
    client = await open_stream(gateway, dialect)
    whole = [Part("Grüße".encode(), UTF8), Part(bytes(range(256)), BIN), Part(b"", UTF8)]
    client.send(dialect.parts(*whole))
    assert [await dialect.read(client) for _ in whole] == whole
    fragments = [
        Part("Grüße, ".encode(), UTF8, PARTIAL),
        Part("🌍".encode()[:2], UTF8, PARTIAL),
        Part("🌍".encode()[2:], UTF8, COMPLETE),
        Part(b"\x00\x01", BIN, PARTIAL),
        Part(b"", BIN, COMPLETE),
    ]
    client.send(dialect.parts(*fragments))
    assert await dialect.read(client) == Part("Grüße, 🌍".encode(), UTF8)
    assert await dialect.read(client) == Part(b"\x00\x01", BIN)


async def test_the_end_of_the_input_is_the_end(gateway_for, serve, events, capsys):
    app = await serve(BIDIRECTIONAL)
    gateway = await gateway_for(ALL_IS_SAID, container_port=app.port)
    client = await open_stream(gateway, events)
    client.send(events.part(Part(b"hello", UTF8)))
    assert await events.read(client) == Part(b"hello", UTF8)
    client.send(events.end())
    assert await events.read(client) == CLEAN
    assert gateway.causes() == {"completed": 1}
    await eventually(lambda: app.guard.activity.idle)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "Received message: {'type': 'websocket.receive', 'text': 'hello'}"
    assert said[-1] == "Client initiated disconnect"


async def test_a_drain_waits_for_the_last_answer(gateway_for, serve, events):
    app = await serve(BIDIRECTIONAL)
    policy = StreamPolicy(input_end="drain", drain_timeout=0.1)
    gateway = await gateway_for(policy, container_port=app.port)
    client = await open_stream(gateway, events)
    client.send(events.part(Part(b"hello", UTF8)), events.end())
    assert await events.read(client) == Part(b"hello", UTF8)
    assert await events.read(client) == CLEAN


@pytest.mark.clause("1.1-4", "1.4-1")
async def test_the_gateways_pings_are_answered(gateway_for, serve):
    """Otherwise the stream would be over after six intervals."""
    envelope = MsgpackDialect()
    app = await serve(BIDIRECTIONAL)
    interval = 0.05
    gateway = await gateway_for(StreamPolicy(ping_interval=interval), container_port=app.port)
    client = await open_stream(gateway, envelope)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while loop.time() < begun + 8 * interval:
        client.send(envelope.part(Part(b"still there?", UTF8)))
        assert await envelope.read(client) == Part(b"still there?", UTF8)
    assert gateway.causes() == {}


async def test_a_container_that_stops_ends_its_streams(gateway_for, serve, envelope):
    app = await serve(BIDIRECTIONAL)
    gateway = await gateway_for(container_port=app.port)
    client = await open_stream(gateway, envelope)
    client.send(envelope.part(Part(b"hello", UTF8)))
    await envelope.read(client)
    app.stop()
    error = Error("ModelStreamError", "1001", "the container is stopping")
    assert await envelope.read_error(client) == error


# --- Other ends ----------------------------------------------------------------------------------


@pytest.mark.clause("1.5-1")
@pytest.mark.parametrize(
    ("how", "code", "message"),
    [
        ("closing", "4000", "enough"),
        ("raising", "1011", "the model failed: ZeroDivisionError"),
        ("returning", "1000", "Normal Closure"),
    ],
)
async def test_how_an_app_ends_a_stream(gateway_for, serve, envelope, how, code, message):
    app = await serve(ENDS)
    gateway = await gateway_for(container_port=app.port)
    client = await open_stream(gateway, envelope, f"{STREAM_PATH}?path=ends/{how}")
    client.send(envelope.part(Part(b"go", UTF8)))
    assert await envelope.read(client) == Part(b"last words", UTF8)
    assert await envelope.read_error(client) == Error("ModelStreamError", code, message)


async def test_a_client_that_ends_is_no_fault_of_the_app(gateway_for, serve, envelope, caplog):
    app = await serve(ENDS)
    gateway = await gateway_for(ALL_IS_SAID, container_port=app.port)
    client = await open_stream(gateway, envelope, f"{STREAM_PATH}?path=ends/reading")
    client.send(envelope.part(Part(b"go", UTF8)))
    await envelope.read(client)
    client.send(envelope.end())
    assert await envelope.read(client) == CLEAN
    await eventually(lambda: app.guard.activity.idle)
    assert "WebSocketDisconnect" not in caplog.text


async def test_an_app_that_is_not_there_refuses(gateway_for, serve, envelope):
    app = await serve(ENDS)
    gateway = await gateway_for(container_port=app.port)
    response = await gateway.request(upgrade_request(f"{STREAM_PATH}?path=no/such", envelope.name))
    assert (response.status, response.json["OriginalStatusCode"]) == (424, 403)
    app.guard.activity.draining = True
    response = await gateway.request(upgrade_request(STREAM_PATH, envelope.name))
    assert (response.status, response.json["OriginalStatusCode"]) == (424, 503)
    assert response.json["OriginalMessage"] == "the container is stopping\n"


# --- Requests, at the container ------------------------------------------------------------------


async def invoke(port: int, body: bytes) -> tuple[bytes, bytes]:
    """Head and body of an answer, as they came."""
    client = await RawClient.connect(port)
    try:
        head = f"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: {len(body)}\r\n"
        client.send(head.encode(), b"Connection: close\r\n\r\n", body)
        return await client.read_head(), await client.eof()
    finally:
        client.abort()


@pytest.mark.clause("1.1-2")
@pytest.mark.parametrize("name", ["fastapi_invocations", "flask_invocations"])
async def test_an_invocation(serve, name):
    app = await serve(f"{name}:app")
    head, body = await invoke(app.port, b"hello")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"content-type: text/plain; charset=utf-8\r\n" in head.lower()
    assert b"content-length: 5\r\n" in head.lower()
    assert body == b"HELLO"


@pytest.mark.clause("1.1-5")
@pytest.mark.parametrize("name", ["fastapi_streaming", "flask_streaming"])
async def test_an_invocation_that_streams(serve, name):
    app = await serve(f"{name}:app")
    head, body = await invoke(app.port, b"hello")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"content-type: text/plain; charset=utf-8\r\n" in head.lower()
    assert b"transfer-encoding: chunked\r\n" in head.lower()
    assert body == b"5\r\nHELLO\r\n1\r\n\n\r\n0\r\n\r\n"


@pytest.mark.clause("1.1-2")
@pytest.mark.parametrize("name", [path.stem for path in sorted(SAMPLES.glob("*.py"))])
async def test_every_sample_is_well(serve, name):
    app = await serve(f"{name}:app")
    client = await RawClient.connect(app.port)
    for method in ("GET", "POST"):
        client.send(f"{method} /ping HTTP/1.1\r\nHost: c\r\nContent-Length: 0\r\n\r\n".encode())
        response = await client.response()
        assert (response.status, response.body) == (200, b"")
    client.abort()
