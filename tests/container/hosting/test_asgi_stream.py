"""A hosted app's WebSockets, and every way in which they end."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from partway.container.hosting.asgi_messages import Receive, Scope, Send
from tests.container.hosting.apps.scripted import Handler, Scripted, ask, response, serving
from tests.container.wire import PATIENCE, RawClient, raw_client, raw_stream, until, upgrade_request
from tests.frame_factory import BINARY, CLOSE, CONTINUATION, KEY, PING, PONG, TEXT, close, frame

pytestmark = pytest.mark.usefixtures("no_leaks")


def accepted(handler: Handler) -> Scripted:
    """An app whose streams are accepted before the handler has them."""

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await handler(scope, receive, send)

    return Scripted(stream=stream)


# --- Messages ------------------------------------------------------------------------------------


@pytest.mark.clause("1.1-4")
async def test_text_and_binary_come_as_whole_messages() -> None:
    async with asyncio.timeout(PATIENCE), serving() as (_, port), raw_stream(port) as client:
        client.send_frame(TEXT, "Grüße".encode())
        client.send_frame(BINARY, b"\x00\xff")
        client.send_frame(TEXT, b"Gr", fin=False)
        client.send_frame(CONTINUATION, "üße".encode()[:1], fin=False)
        client.send_frame(CONTINUATION, "üße".encode()[1:])
        assert await client.frames(3) == [
            (TEXT, "Grüße".encode(), True),
            (BINARY, b"\x00\xff", True),
            (TEXT, "Grüße".encode(), True),
        ]


@pytest.mark.clause("1.1-4")
async def test_a_ping_is_answered_in_the_middle_of_a_message() -> None:
    async with asyncio.timeout(PATIENCE), serving() as (_, port), raw_stream(port) as client:
        client.send_frame(TEXT, b"a", fin=False)
        client.send_frame(PING, bytes(125))
        assert (await client.frame())[1::3] == (PONG, bytes(125))
        client.send_frame(CONTINUATION, b"b")
        assert (await client.frame()).payload == b"ab"


@pytest.mark.clause("1.1-8")
async def test_text_that_is_none_is_1007() -> None:
    async with asyncio.timeout(PATIENCE), serving() as (_, port), raw_stream(port) as client:
        client.send_frame(TEXT, b"\xff")
        assert (await client.frame()).close_code == 1007
        assert await client.eof() == b""


@pytest.mark.clause("1.2-6")
async def test_nothing_is_compressed() -> None:
    async with asyncio.timeout(PATIENCE), serving() as (_, port), raw_client(port) as client:
        client.send(upgrade_request(Sec_WebSocket_Extensions="permessage-deflate"))
        assert b"extensions" not in (await client.head()).lower()


async def test_a_message_over_16_mib_is_1009() -> None:
    async with asyncio.timeout(PATIENCE), serving() as (_, port), raw_stream(port) as client:
        # Its length alone: what is refused unread would have TCP erase the refusal.
        client.send(bytes([0x80 | BINARY, 0x80 | 127]) + ((16 << 20) + 1).to_bytes(8) + KEY)
        assert (await client.frame()).close_code == 1009


# --- The app ends it -----------------------------------------------------------------------------


async def test_an_apps_own_close() -> None:
    async def closes(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.close", "code": 4001, "reason": "enough"})

    app = accepted(closes)
    async with asyncio.timeout(PATIENCE), serving(app) as (_, port), raw_stream(port) as client:
        end = await client.frame()
        assert (end.close_code, end.close_reason) == (4001, "enough")
        client.send_close(4001)
        assert await client.eof() == b""


async def test_returning_is_a_close_with_1000() -> None:
    async def returns(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.send", "text": "bye"})

    app = accepted(returns)
    async with asyncio.timeout(PATIENCE), serving(app) as (_, port), raw_stream(port) as client:
        assert (await client.frame()).payload == b"bye"
        assert (await client.frame()).close_code == 1000


async def test_raising_is_a_close_with_1011_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fails(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["text"] != "fail":
            await send({"type": "websocket.send", "text": "well"})
        raise ZeroDivisionError("with somebody's secret")

    app = accepted(fails)
    async with (
        asyncio.timeout(PATIENCE),
        serving(app) as (_, port),
        raw_stream(port) as client,
        raw_stream(port) as other,
    ):
        client.send_frame(TEXT, b"fail")
        end = await client.frame()
        assert (end.close_code, end.close_reason) == (1011, "the model failed: ZeroDivisionError")
        other.send_frame(TEXT, b"are you?")
        assert (await other.frame()).payload == b"well"
        other.send_frame(TEXT, b"fail")  # and it ends before its client does
        await other.frame()
    assert "ZeroDivisionError: with somebody's secret" in caplog.text


async def test_raising_before_it_is_accepted_is_500(caplog: pytest.LogCaptureFixture) -> None:
    async def fails(scope: Scope, receive: Receive, send: Send) -> None:
        raise ZeroDivisionError

    app = Scripted(stream=fails)
    async with asyncio.timeout(PATIENCE), serving(app) as (_, port), raw_client(port) as client:
        client.send(upgrade_request())
        assert (await client.head()).startswith(b"HTTP/1.1 500 ")
    assert "ZeroDivisionError" in caplog.text


async def test_an_app_may_refuse() -> None:
    async def refuses(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"x-why", b"because")]
        await send({"type": "websocket.http.response.start", "status": 418, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": b"no"})

    app = Scripted(stream=refuses)
    async with asyncio.timeout(PATIENCE), serving(app) as (_, port), raw_client(port) as client:
        client.send(upgrade_request())
        said = await response(client)
        assert (said.status, said.headers["x-why"], said.body) == (418, "because", b"no")


async def test_an_app_that_fails_while_its_client_takes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The Close finds no room, and is not waited for."""
    monkeypatch.setattr("partway.container.hosting.asgi_stream.LINGER_TIMEOUT", 0.05)
    stuck = asyncio.Event()

    async def floods(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            while True:
                async with asyncio.timeout(0.5):
                    await send({"type": "websocket.send", "bytes": bytes(1 << 20)})
        except TimeoutError:
            stuck.set()
            raise

    app = accepted(floods)
    async with (
        asyncio.timeout(PATIENCE),
        serving(app) as (server, port),
        raw_stream(port, receive_buffer=4096) as client,
    ):
        client.writer.transport.pause_reading()
        await stuck.wait()
        await until(lambda: server.guard.activity.idle)
        client.writer.transport.abort()
    assert "TimeoutError" in caplog.text


# --- The client ends it --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "answered", "told"),
    [
        (close(1000, mask=KEY), 1000, 1000),
        (close(4000, b"bye", mask=KEY), 4000, 4000),
        (close(None, mask=KEY), None, 1005),
    ],
)
async def test_a_clients_close_is_answered_and_told(
    sent: bytes, answered: int | None, told: int
) -> None:
    seen: list[int] = []

    async def listens(scope: Scope, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] == "websocket.receive":
            pass
        seen.append(message["code"])

    app = accepted(listens)
    async with asyncio.timeout(PATIENCE), serving(app) as (_, port), raw_stream(port) as client:
        client.send(sent)
        end = await client.frame()
        assert (end.opcode, end.close_code) == (CLOSE, answered)
        assert await client.eof() == b""
        assert seen == [told]


async def leave(client: RawClient) -> None:
    client.send_close(1000)
    assert (await client.frame()).close_code == 1000


class WebSocketDisconnect(Exception):
    """Named as Starlette's."""


@pytest.mark.parametrize("how", ["sends on", "raises", "fails"])
async def test_what_an_app_does_once_its_client_has_left(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def careless(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] == "websocket.receive":
            pass
        if how == "raises":
            raise WebSocketDisconnect(1000)
        if how == "fails":
            raise ZeroDivisionError
        while True:
            await send({"type": "websocket.send", "text": "are you there?"})

    app = accepted(careless)
    async with (
        asyncio.timeout(PATIENCE),
        serving(app) as (server, port),
        raw_stream(port) as client,
    ):
        await leave(client)
        await until(lambda: server.guard.activity.idle)
    failures = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(failures) == (1 if how == "fails" else 0)


# --- The server ends it --------------------------------------------------------------------------


async def test_our_close_is_the_last_word(caplog: pytest.LogCaptureFixture) -> None:
    """The app learns of it, what it sends raises, and its own Close is dropped."""
    said: list[object] = []

    async def talks(scope: Scope, receive: Receive, send: Send) -> None:
        said.append(await receive())
        try:
            await send({"type": "websocket.send", "text": "still there?"})
        except OSError as error:
            said.append(type(error).__name__)
        await send({"type": "websocket.close", "code": 4000, "reason": "mine"})
        said.append("dropped")

    app = accepted(talks)
    async with (
        asyncio.timeout(PATIENCE),
        serving(app) as (server, port),
        raw_stream(port) as client,
    ):
        (stream,) = server.guard.activity.streams
        stream.close(1001, "r" * 200)
        stream.close(1002, "too late")
        end = await client.frame()
        assert (end.close_code, end.close_reason) == (1001, "r" * 123)
        client.send_close(1001)
        assert await client.eof() == b""
    told = {"type": "websocket.disconnect", "code": 1001, "reason": "r" * 123}
    assert said == [told, "StreamOver", "dropped"]
    del stream  # and no task is left that has failed and told nobody
    gc.collect()
    assert caplog.records == []


async def test_our_close_is_said_even_if_the_app_returns_at_that_moment() -> None:
    release = asyncio.Event()

    async def returns(scope: Scope, receive: Receive, send: Send) -> None:
        await release.wait()

    app = accepted(returns)
    async with (
        asyncio.timeout(PATIENCE),
        serving(app) as (server, port),
        raw_stream(port) as client,
    ):
        (stream,) = server.guard.activity.streams
        release.set()
        stream.close(1001, "the container is stopping")
        assert (await client.frame()).close_code == 1001


async def test_a_stream_that_is_not_accepted_yet_is_refused() -> None:
    asked = asyncio.Event()
    said: list[str] = []

    async def hesitates(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        asked.set()
        said.append((await receive())["type"])
        await send({"type": "websocket.accept"})

    app = Scripted(stream=hesitates)
    async with (
        asyncio.timeout(PATIENCE),
        serving(app) as (server, port),
        raw_client(port) as client,
    ):
        client.send(upgrade_request())
        await asked.wait()
        (stream,) = server.guard.activity.streams
        stream.close(1001, "the container is stopping")
        refused = await response(client)
        assert (refused.status, refused.body) == (503, b"the container is stopping\n")
        assert await client.eof() == b""
        await until(lambda: server.guard.activity.idle)
    assert said == ["websocket.disconnect"]


async def test_an_app_that_has_closed_has_closed() -> None:
    closed, release = asyncio.Event(), asyncio.Event()

    async def closes(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.close", "code": 4001, "reason": "mine"})
        closed.set()
        await release.wait()

    app = accepted(closes)
    async with (
        asyncio.timeout(PATIENCE),
        serving(app) as (server, port),
        raw_stream(port) as client,
    ):
        await closed.wait()
        (stream,) = server.guard.activity.streams
        stream.close(1001, "ours")
        assert (await client.frame()).close_code == 4001
        release.set()
        client.send_close(4001)
        assert await client.eof() == b""


async def test_requests_go_on_beside_streams() -> None:
    async with (
        asyncio.timeout(PATIENCE),
        serving() as (_, port),
        raw_stream(port) as stream,
        raw_client(port) as client,
    ):
        stream.send(frame(TEXT, b"x", mask=KEY))
        await stream.frame()
        assert (await ask(client, "POST /invocations", b"hi")).body == b"hi"
