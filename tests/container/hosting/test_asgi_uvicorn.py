"""uvicorn as it is set up here: what it takes, what it refuses, and that it ends."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import warnings

import pytest

from partway.container.hosting import asgi_uvicorn
from partway.container.hosting.asgi_messages import Receive, Scope, Send
from partway.container.hosting.asgi_uvicorn import WebServer
from partway.container.limits import ACCEPT_BACKLOG
from tests.container.hosting.apps.scripted import Scripted, ask, response, serving
from tests.container.wire import PATIENCE, raw_client, raw_stream, upgrade_request
from tests.frame_factory import CONTINUATION, TEXT

pytestmark = pytest.mark.usefixtures("no_leaks")


async def test_signals_stay_with_their_owner() -> None:
    before = signal.getsignal(signal.SIGTERM)
    async with serving():
        assert signal.getsignal(signal.SIGTERM) is before
    assert signal.getsignal(signal.SIGTERM) is before


async def test_what_uvicorn_is_told() -> None:
    """What no byte on the wire shows."""
    config = WebServer(Scripted()).config
    assert config.backlog == ACCEPT_BACKLOG
    assert (config.ws_ping_interval, config.ws_max_size) == (None, 16 << 20)
    assert (config.proxy_headers, config.access_log, config.lifespan) == (False, False, "off")


async def test_every_address_of_a_host() -> None:
    server = WebServer(Scripted())
    port = await server.listen("localhost", 0)
    try:
        async with raw_client(port) as client:
            assert (await ask(client, "GET /nothing")).status == 200
    finally:
        server.abort()
        await server.aclose()


async def test_a_port_that_is_taken_leaves_no_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        with pytest.raises(OSError, match="ddress already in use"):
            await asgi_uvicorn._bound_sockets("127.0.0.1", taken.getsockname()[1])
        gc.collect()


async def test_a_host_that_is_none() -> None:
    with pytest.raises(OSError, match=r"."):
        await WebServer(Scripted()).listen("no-such-host.invalid", 0)


async def test_a_silent_peer_is_the_kernels_to_find() -> None:
    (sock,) = await asgi_uvicorn._bound_sockets("127.0.0.1", 0)
    with sock:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 300_000


@pytest.mark.parametrize("sent", [b"", b"GET /ping HTTP/1.1\r\nHost:"])
async def test_a_head_has_a_deadline(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi_uvicorn, "REQUEST_HEAD_TIMEOUT", 0.05)
    async with asyncio.timeout(PATIENCE), serving() as (_, port), raw_client(port) as client:
        client.send(sent)
        assert await client.eof() == b""


async def test_the_next_head_has_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with asyncio.timeout(PATIENCE), serving() as (_, port), raw_client(port) as client:
        monkeypatch.setattr(asgi_uvicorn, "REQUEST_HEAD_TIMEOUT", 0.05)
        await ask(client, "GET /ping")
        client.send(b"GET /pi")
        assert await client.eof() == b""


async def test_an_answer_and_a_stream_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi_uvicorn, "REQUEST_HEAD_TIMEOUT", 0.05)
    release = asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await release.wait()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async with (
        asyncio.timeout(PATIENCE),
        serving(Scripted(slow)) as (_, port),
        raw_stream(port) as stream,
        raw_client(port) as waits,
        raw_client(port) as silent,
    ):
        waits.send(b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 0\r\n\r\n")
        assert await silent.eof() == b""  # its deadline came after those of the others
        release.set()
        assert (await waits.head()).startswith(b"HTTP/1.1 204 ")
        stream.send_frame(TEXT, b"x")
        assert (await stream.frame()).payload == b"x"


UPGRADES = {
    "a body": upgrade_request(Content_Length="5"),
    "a line too long": upgrade_request(X_Long="a" * 9000),
    "too many headers": upgrade_request(**{f"X_{number}": "a" for number in range(200)}),
    "no key": upgrade_request(Sec_WebSocket_Key=None),
    "a bad key": upgrade_request(Sec_WebSocket_Key="x"),
    "another version": upgrade_request(Sec_WebSocket_Version="8"),
}


@pytest.mark.parametrize("request_", UPGRADES.values(), ids=UPGRADES)
async def test_an_upgrade_that_is_none_is_answered(request_: bytes) -> None:
    async with asyncio.timeout(PATIENCE), serving() as (server, port), raw_client(port) as client:
        client.send(request_)
        assert (await client.head()).startswith(b"HTTP/1.1 400 ")
        await client.rest()
        assert server.guard.activity.idle


async def test_a_head_too_large_is_400() -> None:
    async with asyncio.timeout(PATIENCE), serving() as (_, port), raw_client(port) as client:
        client.send(b"GET /ping HTTP/1.1\r\nX-Long: " + b"a" * (17 << 10))
        assert (await client.head()).startswith(b"HTTP/1.1 400 ")


async def test_fragments_of_a_message_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi_uvicorn, "MAX_FRAGMENTS", 3)
    async with asyncio.timeout(PATIENCE), serving() as (_, port), raw_stream(port) as client:
        for count in (2, 3):
            client.send_frame(TEXT, b"", fin=False)
            for _ in range(count):
                client.send_frame(CONTINUATION, b"", fin=False)
            client.send_frame(CONTINUATION, b"x")
            if count == 2:
                assert (await client.frame()).payload == b"x"
        end = await client.frame()
        assert (end.close_code, end.close_reason) == (
            1009,
            "a message must have at most 3 fragments",
        )
        await client.rest()


async def test_too_many_connections_are_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi_uvicorn, "_MAX_CONNECTIONS", 2)
    async with asyncio.timeout(PATIENCE), serving() as (_, port), raw_client(port) as first:
        assert (await ask(first, "GET /ping")).status == 200
        async with raw_client(port) as second:
            assert (await ask(second, "GET /ping")).status == 503


async def test_finish_lets_a_close_be_answered() -> None:
    """The last connection ends the wait; a stream that is closing is one."""

    async def closes(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": 1001})

    server = WebServer(Scripted(stream=closes))
    port = await server.listen("127.0.0.1", 0)
    async with asyncio.timeout(PATIENCE), raw_client(port) as idle, raw_stream(port) as stream:
        assert (await stream.frame()).close_code == 1001
        finishing = asyncio.create_task(server.finish(5))
        assert await idle.eof() == b""
        assert not finishing.done()
        stream.send_close(1001)
        await finishing
        assert await stream.eof() == b""
    server.abort()
    await server.aclose()


async def test_what_does_not_finish_is_aborted() -> None:
    server = WebServer(Scripted())
    port = await server.listen("127.0.0.1", 0)
    async with asyncio.timeout(PATIENCE), raw_stream(port) as stream:
        await server.finish(0.05)
        server.abort()
        assert await stream.rest() == b""
        await server.aclose()


async def test_the_port_is_free_at_the_end() -> None:
    server = WebServer(Scripted())
    port = await server.listen("127.0.0.1", 0)
    server.abort()
    await server.aclose()
    with socket.create_server(("127.0.0.1", port)):
        pass


async def test_an_answer_to_a_bad_request_is_one(caplog: pytest.LogCaptureFixture) -> None:
    async with asyncio.timeout(PATIENCE), serving() as (_, port), raw_client(port) as client:
        client.send(b"NONSENSE\r\n\r\n")
        assert (await client.head()).startswith(b"HTTP/1.1 400 ")
    assert caplog.records == []  # a client's fault is none of ours


async def test_refusals_of_upgrades_name_the_server() -> None:
    async with asyncio.timeout(PATIENCE), serving() as (server, port), raw_client(port) as client:
        server.guard.activity.draining = True
        client.send(upgrade_request())
        assert (await response(client)).headers["server"] == "partway-container"
        server.guard.activity.draining = False
