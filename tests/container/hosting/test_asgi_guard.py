"""What the guard adds to an app, and what it leaves alone, on the wire."""

from __future__ import annotations

import asyncio
import logging

import pytest

from partway.container.hosting.asgi import AppServer
from partway.container.hosting.asgi_messages import Message, Receive, Scope, Send
from partway.container.hosting.asgi_request import BoundedBody
from tests.container.hosting.apps.scripted import (
    NAME,
    Handler,
    Scripted,
    ask,
    respond,
    response,
    serving,
    whole_body,
)
from tests.container.wire import PATIENCE, STREAM, raw_client, raw_stream, until, upgrade_request
from tests.frame_factory import TEXT

pytestmark = pytest.mark.usefixtures("no_leaks")


def routes(**answers: int) -> Handler:
    """An app that answers "METHOD_path" with a status, anything else with 404."""

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        name = f"{scope['method']}_{scope['path'].strip('/').replace('-', '_')}"
        await respond(send, answers.get(name, 404), name.encode(), x_app="yes")

    return handler


# --- /ping ---------------------------------------------------------------------------------------


@pytest.mark.clause("1.1-2")
@pytest.mark.parametrize(
    ("answers", "status", "said_by"),
    [
        ({}, 200, None),
        ({"GET_ping": 200, "POST_ping": 200}, 200, "its own"),
        ({"GET_ping": 200, "POST_ping": 405}, 200, "GET"),
        ({"GET_ping": 405, "POST_ping": 200}, 200, "POST"),
        ({"GET_ping": 405, "POST_ping": 405}, 200, None),
        ({"GET_ping": 202, "POST_ping": 405}, 202, "GET"),
        ({"GET_ping": 500, "POST_ping": 500}, 500, "its own"),
        ({"GET_ping": 503, "POST_ping": 405}, 503, "GET"),
    ],
)
async def test_the_app_is_asked_for_its_health(
    answers: dict[str, int], status: int, said_by: str | None
) -> None:
    app = Scripted(routes(**answers))
    async with asyncio.timeout(PATIENCE), serving(app) as (_, port), raw_client(port) as client:
        for method in ("GET", "POST"):
            said = await ask(client, f"{method} /ping", b"", "X-Never-Heard-Of: it")
            assert said.status == status
            if said_by is None:
                assert (said.body, "x-app" in said.headers) == (b"", False)
            else:
                asked = method if said_by == "its own" else said_by
                assert (said.body, said.headers["x-app"]) == (f"{asked}_ping".encode(), "yes")


async def test_a_ping_asked_in_the_other_way_has_no_body() -> None:
    async def only_get(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST":
            await respond(send, 405)
        else:
            names = [name for name, _ in scope["headers"]]
            await respond(send, body=repr((await whole_body(receive), names)).encode())

    app = Scripted(only_get)
    async with asyncio.timeout(PATIENCE), serving(app) as (_, port), raw_client(port) as client:
        said = await ask(client, "POST /ping", b"are you well?", "Content-Type: text/plain")
        assert said.body == b"(b'', [b'host'])"


async def test_other_methods_and_paths_are_the_apps() -> None:
    app = Scripted(routes(PUT_ping=418, GET_ping_more=201))
    async with asyncio.timeout(PATIENCE), serving(app) as (_, port), raw_client(port) as client:
        assert (await ask(client, "PUT /ping")).status == 418
        assert (await ask(client, "DELETE /ping")).status == 404
        assert (await ask(client, "GET /ping/more")).status == 404


async def test_a_slow_ping_is_a_503_and_the_app_is_told() -> None:
    ended: list[str] = []

    async def hangs(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async with asyncio.timeout(PATIENCE), serving(Scripted(hangs)) as (server, port):
        server.guard._ping_timeout = 0.05
        async with raw_client(port) as client:
            for _ in range(2):
                said = await ask(client, "GET /ping")
                assert (said.status, said.body) == (
                    503,
                    b"the app's /ping took longer than 0.05 s\n",
                )
    assert ended == ["cancelled", "cancelled"]


async def test_a_body_that_does_not_come_counts_as_slow() -> None:
    async def half(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"o", "more_body": True})
        await asyncio.Event().wait()

    async with asyncio.timeout(PATIENCE), serving(Scripted(half)) as (server, port):
        server.guard._ping_timeout = 0.05
        async with raw_client(port) as client:
            assert (await ask(client, "GET /ping")).status == 503


async def test_a_ping_that_ignores_its_cancellation_is_not_asked_again() -> None:
    release, asked = asyncio.Event(), 0

    async def stubborn(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal asked
        asked += 1
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    app = Scripted(stubborn)
    async with (
        asyncio.timeout(PATIENCE),
        serving(app) as (server, port),
        raw_client(port) as client,
    ):
        server.guard._ping_timeout = 0.05
        try:
            await ask(client, "GET /ping")
            said = await ask(client, "GET /ping")
            assert (said.status, said.body) == (
                503,
                b"the app is still answering an earlier /ping\n",
            )
            assert asked == 1
        finally:
            release.set()
        await until(lambda: not server.guard._asked)
        assert (await ask(client, "GET /ping")).status == 503  # it has no answer
        assert asked == 2


@pytest.mark.parametrize(
    ("fails", "reason"),
    [
        (True, b"the model failed: ZeroDivisionError\n"),
        (False, b"the app gave no answer to /ping\n"),
    ],
)
async def test_a_ping_without_an_answer(
    fails: bool, reason: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def wordless(scope: Scope, receive: Receive, send: Send) -> None:
        if fails:
            raise ZeroDivisionError("with somebody's secret")

    app = Scripted(wordless)
    async with asyncio.timeout(PATIENCE), serving(app) as (_, port), raw_client(port) as client:
        said = await ask(client, "GET /ping")
        assert (said.status, said.body) == (503, reason)
    assert ("with somebody's secret" in caplog.text) is fails


async def test_an_answer_to_a_ping_is_kept_within_bounds() -> None:
    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": bytes(1000), "more_body": True})
            await asyncio.sleep(0)

    app = Scripted(endless)
    async with (
        asyncio.timeout(PATIENCE),
        serving(app) as (server, port),
        raw_client(port) as client,
    ):
        said = await ask(client, "GET /ping")
        assert (said.status, said.body) == (503, b"the app's answer to /ping is too long\n")
        await until(lambda: not server.guard._asked)


async def test_what_an_app_does_after_its_answer_is_not_waited_for() -> None:
    release = asyncio.Event()

    async def afterwards(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, body=b"well")
        await release.wait()

    app = Scripted(afterwards)
    async with asyncio.timeout(PATIENCE), serving(app) as (_, port), raw_client(port) as client:
        for _ in range(2):
            assert (await ask(client, "GET /ping")).body == b"well"
        release.set()


async def test_the_log_hears_of_a_change_of_health(caplog: pytest.LogCaptureFixture) -> None:
    well = False

    async def moody(scope: Scope, receive: Receive, send: Send) -> None:
        if well:
            await respond(send)

    caplog.set_level(logging.INFO, "partway.container.app")
    app = Scripted(moody)
    async with asyncio.timeout(PATIENCE), serving(app) as (_, port), raw_client(port) as client:
        for well in (False, False, True, True):  # noqa: B007 (the app looks at it)
            await ask(client, "GET /ping")
    assert [record.getMessage() for record in caplog.records if record.name.endswith(".app")] == [
        '/ping answers 503 reason="the app gave no answer to /ping"',
        "the app is healthy",
    ]


# --- /execution-parameters -----------------------------------------------------------------------


async def test_the_default_parameters_stand_in_for_a_404() -> None:
    async with asyncio.timeout(PATIENCE), serving() as (_, port), raw_client(port) as client:
        said = await ask(client, "GET /execution-parameters")
        assert (said.status, said.headers["content-type"]) == (200, "application/json")
        assert said.json == {
            "MaxConcurrentTransforms": 1,
            "BatchStrategy": "MULTI_RECORD",
            "MaxPayloadInMB": 6,
        }
        assert (await ask(client, "POST /execution-parameters")).status == 404


@pytest.mark.parametrize("status", [200, 405, 500])
async def test_the_apps_own_parameters_are_its_own(status: int) -> None:
    app = Scripted(routes(GET_execution_parameters=status))
    async with asyncio.timeout(PATIENCE), serving(app) as (_, port), raw_client(port) as client:
        said = await ask(client, "GET /execution-parameters")
        assert (said.status, said.body) == (status, b"GET_execution_parameters")


# --- Requests ------------------------------------------------------------------------------------


async def test_an_app_sees_the_request_as_it_came() -> None:
    seen: dict[str, object] = {}

    async def look(scope: Scope, receive: Receive, send: Send) -> None:
        seen.update(scope, body=await whole_body(receive))
        await respond(send, 207, b"multi", content_type="a/b", x_many="1")

    async with (
        asyncio.timeout(PATIENCE),
        serving(Scripted(look)) as (_, port),
        raw_client(port) as client,
    ):
        said = await ask(client, "POST /invocations?a=1&a=2", b"\x00\xff", "X-Amzn-Unknown: yes")
        assert (said.status, said.body, said.headers["x-many"]) == (207, b"multi", "1")
        assert seen["query_string"] == b"a=1&a=2"
        assert seen["body"] == b"\x00\xff"
        assert (b"x-amzn-unknown", b"yes") in seen["headers"]  # type: ignore[operator]
        assert said.headers["server"] == "partway-container"


@pytest.mark.clause("1.1-5")
async def test_an_answer_streams_chunk_by_chunk() -> None:
    more = asyncio.Event()

    async def chunks(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await more.wait()
        await send({"type": "http.response.body", "body": b"two", "more_body": True})
        await send({"type": "http.response.body"})

    app = Scripted(chunks)
    async with asyncio.timeout(PATIENCE), serving(app) as (_, port), raw_client(port) as client:
        client.send(b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 0\r\n\r\n")
        assert b"transfer-encoding: chunked" in (await client.head()).lower()
        assert await client.reader.readexactly(8) == b"3\r\none\r\n"
        more.set()
        assert await client.reader.readexactly(13) == b"3\r\ntwo\r\n0\r\n\r\n"


async def test_an_app_that_fails_is_500_and_the_connection_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fails(scope: Scope, receive: Receive, send: Send) -> None:
        raise ZeroDivisionError("with somebody's secret")

    async with (
        asyncio.timeout(PATIENCE),
        serving(Scripted(fails)) as (_, port),
        raw_client(port) as client,
    ):
        client.send(b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 0\r\n\r\n")
        head = await client.head()
        assert head.startswith(b"HTTP/1.1 500 ")
        assert b"secret" not in await client.rest()
    assert "ZeroDivisionError" in caplog.text


async def test_a_body_that_is_too_large_is_413() -> None:
    """By what its head announces, or as it comes; the connection goes on behind it."""
    async with asyncio.timeout(PATIENCE), serving() as (server, port), raw_client(port) as client:
        server.guard._max_body = 10
        client.send(b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 11\r\n\r\n")
        said = await response(client)
        assert (said.status, said.body) == (413, b"the body is larger than 10 bytes\n")
        client.send(b"hello world")
        client.send(b"POST /invocations HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n")
        client.send(b"a\r\nhello worl\r\n1\r\nd\r\n")
        assert (await response(client)).status == 413
        client.send(b"0\r\n\r\n")
        assert (await ask(client, "POST /invocations", b"just right")).body == b"just right"


async def test_a_body_that_is_too_slow_is_408() -> None:
    async with asyncio.timeout(PATIENCE), serving() as (server, port), raw_client(port) as client:
        server.guard._body_timeout = 0.05
        client.send(b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\nh")
        said = await response(client)
        assert (said.status, said.body) == (408, b"the body did not come within 0.05 s\n")


async def test_the_time_for_a_body_is_that_for_all_of_it() -> None:
    pauses = iter([0.0])  # then for ever longer than there is time

    async def dribble() -> Message:
        await asyncio.sleep(next(pauses, 0.01))
        return {"type": "http.request", "body": b"x", "more_body": True}

    body = BoundedBody(dribble, patience=0.05)
    received = [await body.receive()]
    while received[-1]["type"] == "http.request":
        assert len(received) < 100, "each piece has had time of its own"
        received.append(await body.receive())
    assert received[0]["type"] == "http.request"
    assert received[-1]["type"] == "http.disconnect"
    assert body.fault == (408, "the body did not come within 0.05 s")


async def test_a_body_out_of_bounds_is_told_even_by_an_app_that_fails_over_it() -> None:
    async def strict(scope: Scope, receive: Receive, send: Send) -> None:
        if await whole_body(receive) is None:
            raise ConnectionError("where is it?")

    async with asyncio.timeout(PATIENCE), serving(Scripted(strict)) as (server, port):
        server.guard._body_timeout = 0.05
        async with raw_client(port) as client:
            client.send(b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\nh")
            assert (await response(client)).status == 408


async def test_waiting_for_a_client_to_leave_is_not_waiting_for_its_body() -> None:
    read, left = asyncio.Event(), asyncio.Event()

    async def watches(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/ping":
            await respond(send)
            return
        await whole_body(receive)
        read.set()
        if (await receive())["type"] == "http.disconnect":
            left.set()

    async with asyncio.timeout(PATIENCE), serving(Scripted(watches)) as (server, port):
        server.guard._body_timeout = 0  # a body that comes with its head is not waited for
        async with raw_client(port) as client, raw_client(port) as other:
            client.send(b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\nhi")
            await read.wait()
            await ask(other, "GET /ping")
            assert not left.is_set()
        await left.wait()


async def test_no_more_than_so_many_at_a_time_but_pings() -> None:
    async with asyncio.timeout(PATIENCE), serving() as (server, port):
        server.guard.activity._limit = 1
        async with raw_stream(port) as stream, raw_client(port) as client:
            stream.send_frame(TEXT, b"x")
            await stream.frame()
            said = await ask(client, "POST /invocations", b"hi")
            assert said.status == 503
            assert b"that is the limit" in said.body
            assert (await ask(client, "GET /ping")).status == 200
            client.send(upgrade_request())
            assert (await response(client)).status == 503


# --- While there is no app -----------------------------------------------------------------------


async def test_before_the_app_is_loaded() -> None:
    server = AppServer(NAME)
    port = await server.start()
    try:
        async with asyncio.timeout(PATIENCE), raw_client(port) as client:
            for request in ("GET /ping", "POST /ping", "POST /invocations"):
                said = await ask(client, request)
                assert said.status == 503
                assert said.body.startswith(b"the app has been loading for 0 s")
            client.send(upgrade_request())
            assert (await response(client)).status == 503
    finally:
        await server.aclose()


# --- Browsers ------------------------------------------------------------------------------------


async def test_pages_cannot_ask_either() -> None:
    asked: list[Scope] = []

    async def note(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope)
        await respond(send)

    async with (
        asyncio.timeout(PATIENCE),
        serving(Scripted(note)) as (_, port),
        raw_client(port) as client,
    ):
        for header in ("Origin: https://page.example", "Sec-Fetch-Site: cross-site"):
            for request in ("POST /invocations", "POST /v1/chat/completions", "GET /admin"):
                said = await ask(client, request, b"hello", header, "Content-Type: text/plain")
                assert said.status == 403
                assert said.body == (
                    b"a container takes requests from its platform, not from web pages\n"
                )
        assert asked == []
        assert (await ask(client, "GET /ping", b"", "Sec-Fetch-Site: cross-site")).status == 200
        assert (await ask(client, "GET /docs", b"", "Sec-Fetch-Site: none")).status == 200


async def test_pages_cannot_open_streams() -> None:
    opened: list[Scope] = []

    async def note(scope: Scope, receive: Receive, send: Send) -> None:
        opened.append(scope)

    async with asyncio.timeout(PATIENCE), serving(Scripted(stream=note)) as (_, port):
        async with raw_client(port) as client:
            client.send(upgrade_request(Origin="https://page.example"))
            said = await response(client)
            assert said.status == 403
            assert said.body == b"a container takes streams from its platform, not from web pages\n"
            assert said.headers["server"] == "partway-container"
            assert await client.eof() == b""
        async with raw_client(port) as client:
            client.send(upgrade_request(STREAM, Origin=""))
            assert (await response(client)).status == 403
    assert opened == []
