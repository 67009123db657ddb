"""WSGI apps on the wire, and the ends of their threads."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from partway.container.hosting import asgi_wsgi
from partway.container.shutdown import ShutdownTimes
from tests.container.hosting.apps.scripted import Response, ask, response, serving
from tests.container.wire import PATIENCE, raw_client, until, upgrade_request

pytestmark = pytest.mark.usefixtures("no_leaks")

WSGI = Callable[[dict[str, Any], Any], Any]


def wsgi(answer: WSGI) -> WSGI:
    """An app that knows no /ping and answers everything else with an iterable of bytes."""

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"] == "/ping":
            start_response("404 NOT FOUND", [])
            return []
        start_response("200 OK", [("Content-Type", "text/plain")])
        return answer(environ, start_response)

    return app


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "partway-wsgi"]


@pytest.fixture(autouse=True)
async def _no_threads(anyio_backend: object) -> Any:
    yield
    await until(lambda: not threads())


INVOKE = b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 0\r\n\r\n"


async def chunk(reader: asyncio.StreamReader) -> bytes:
    size = int(await reader.readline(), 16)
    return (await reader.readexactly(size + 2))[:-2]


async def test_a_request_and_its_answer() -> None:
    seen: dict[str, Any] = {}

    class Body:
        def __iter__(self) -> Iterator[bytes]:
            return iter([seen["body"].upper()])

        def close(self) -> None:
            seen["closed"] = True

    def look(environ: dict[str, Any], start_response: Any) -> Body:
        seen.update(environ, body=environ["wsgi.input"].read())
        return Body()

    async with (
        asyncio.timeout(PATIENCE),
        serving(wsgi(look)) as (_, port),
        raw_client(port) as client,
    ):
        client.send(
            b"POST /invocations?a=1 HTTP/1.1\r\nHost: c\r\nX-Amzn-Unknown: yes\r\n"
            b"Content-Type: text/x\r\nContent-Length: 2\r\n\r\nhi"
        )
        said = Response(await client.head())
        assert (said.status, said.headers["content-type"]) == (200, "text/plain")
        assert await chunk(client.reader) == b"HI"
    assert seen["REQUEST_METHOD"] == "POST"
    assert (seen["QUERY_STRING"], seen["CONTENT_TYPE"]) == ("a=1", "text/x")
    assert seen["HTTP_X_AMZN_UNKNOWN"] == "yes"
    assert seen["wsgi.errors"] is sys.stderr
    assert seen["closed"]


@pytest.mark.clause("1.1-2")
async def test_the_guard_stands_before_it() -> None:
    app = wsgi(lambda *_: [])
    async with asyncio.timeout(PATIENCE), serving(app) as (_, port), raw_client(port) as client:
        for method in ("GET", "POST"):
            said = await ask(client, f"{method} /ping")
            assert (said.status, said.body) == (200, b"")


async def test_streams_are_not_wsgis() -> None:
    app = wsgi(lambda *_: [])
    async with asyncio.timeout(PATIENCE), serving(app) as (_, port), raw_client(port) as client:
        client.send(upgrade_request())
        said = await response(client)
        assert said.status == 501
        assert said.body == b"this is a WSGI app: it takes requests, not streams\n"


@pytest.mark.clause("1.1-5")
async def test_an_answer_streams_chunk_by_chunk() -> None:
    more = threading.Event()

    def chunks(environ: Any, start_response: Any) -> Iterator[bytes]:
        yield b"one"
        assert more.wait(5)
        yield b"two"

    async with (
        asyncio.timeout(PATIENCE),
        serving(wsgi(chunks)) as (_, port),
        raw_client(port) as client,
    ):
        client.send(INVOKE)
        await client.head()
        assert await chunk(client.reader) == b"one"
        more.set()
        assert await chunk(client.reader) == b"two"
        assert await client.reader.readexactly(5) == b"0\r\n\r\n"


async def test_an_app_that_fails_is_500(caplog: pytest.LogCaptureFixture) -> None:
    def fails(environ: Any, start_response: Any) -> list[bytes]:
        raise ZeroDivisionError

    async with asyncio.timeout(PATIENCE), serving(fails) as (_, port), raw_client(port) as client:
        client.send(INVOKE)
        assert (await client.head()).startswith(b"HTTP/1.1 500 ")
    assert "ZeroDivisionError" in caplog.text


async def test_an_answer_that_is_longer_than_announced_keeps_no_thread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    closed = threading.Event()

    def lies(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [("Content-Length", "1")])
        try:
            while True:
                yield b"more"
        finally:
            closed.set()

    async with asyncio.timeout(PATIENCE), serving(lies) as (_, port), raw_client(port) as client:
        client.send(INVOKE)
        await client.rest()
        await until(closed.is_set)
    assert "Too much data for declared Content-Length" in caplog.text


async def test_a_client_that_leaves_ends_an_endless_answer() -> None:
    closed = threading.Event()

    def endless(environ: Any, start_response: Any) -> Iterator[bytes]:
        try:
            while True:
                yield b"more"
        finally:
            closed.set()

    async with asyncio.timeout(PATIENCE), serving(wsgi(endless)) as (_, port):
        async with raw_client(port) as client:
            client.send(INVOKE)
            await client.head()
        await until(closed.is_set)


async def test_a_client_that_leaves_before_its_body_is_whole_costs_no_thread() -> None:
    called = threading.Event()

    def note(environ: Any, start_response: Any) -> list[bytes]:
        called.set()
        return []

    async with asyncio.timeout(PATIENCE), serving(wsgi(note)) as (server, port):
        async with raw_client(port) as client:
            client.send(b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\nh")
            await until(lambda: not server.guard.activity.idle)
        await until(lambda: server.guard.activity.idle)
    assert not called.is_set()


class House:
    """Requests that all wait for the same word."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.inside = 0

    def app(self, environ: Any, start_response: Any) -> Iterator[bytes]:
        self.inside += 1
        assert self.release.wait(5)
        return iter([b"done"])


async def test_a_full_house(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many compute, so many wait, the next gets 503; and /ping is answered all the same."""
    monkeypatch.setattr(asgi_wsgi.WsgiApp.__init__, "__defaults__", (1, 1))
    house = House()
    async with (
        asyncio.timeout(PATIENCE),
        serving(wsgi(house.app)) as (_, port),
        raw_client(port) as first,
        raw_client(port) as second,
        raw_client(port) as third,
    ):
        try:
            first.send(INVOKE)
            await until(lambda: house.inside)
            second.send(INVOKE)
            await ask(third, "GET /ping")
            said = await ask(third, "POST /invocations")
            assert said.status == 503
            assert said.body == b"2 requests are under way, and that is the limit\n"
            assert (await ask(third, "GET /ping")).status == 200
            assert house.inside == 1
        finally:
            house.release.set()
        for client in (first, second):
            await client.head()
            assert await chunk(client.reader) == b"done"


async def test_a_ping_that_hangs_keeps_its_thread_and_no_other() -> None:
    release = threading.Event()

    def hangs(environ: Any, start_response: Any) -> list[bytes]:
        if environ["PATH_INFO"] == "/ping":
            assert release.wait(5)
        start_response("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    async with (
        asyncio.timeout(PATIENCE),
        serving(hangs) as (server, port),
        raw_client(port) as client,
    ):
        server.guard._ping_timeout = 0.05
        try:
            for _ in range(3):
                assert (await ask(client, "GET /ping")).status == 503
            assert len(threads()) == 1
            assert (await ask(client, "POST /invocations")).body == b"ok"
        finally:
            release.set()
        await until(lambda: not threads())
        server.guard._ping_timeout = 5
        assert (await ask(client, "GET /ping")).body == b"ok"


async def test_a_ping_that_nobody_waits_for_stops_at_its_next_chunk() -> None:
    """Which is not the eleventh, for which a2wsgi would have no room and nobody to make it."""
    chunks = 0

    def slow(environ: Any, start_response: Any) -> Iterator[bytes]:
        nonlocal chunks
        start_response("200 OK", [])
        while True:
            chunks += 1
            yield b"x"
            assert not threading.Event().wait(0.02)

    async with (
        asyncio.timeout(PATIENCE),
        serving(slow) as (server, port),
        raw_client(port) as client,
    ):
        server.guard._ping_timeout = 0.05
        assert (await ask(client, "GET /ping")).status == 503
        await until(lambda: not threads())
    assert chunks < 11


async def test_a_client_that_takes_nothing_keeps_no_thread_past_the_end() -> None:
    """The thread waits for room for its next chunk, and is let go."""
    chunks = 0

    def endless(environ: Any, start_response: Any) -> Iterator[bytes]:
        nonlocal chunks
        while True:
            chunks += 1
            yield bytes(1 << 20)

    times = ShutdownTimes(grace=0.05, spread=0.05, hard=0.05)
    async with (
        asyncio.timeout(PATIENCE),
        serving(wsgi(endless), times) as (server, port),
        raw_client(port, receive_buffer=4096) as client,
    ):
        client.send(INVOKE)
        await client.head()
        await until(lambda: chunks > asgi_wsgi._CHUNKS_HELD)
        server.stop()
        await server.stopped()
        await until(lambda: not threads())


@pytest.mark.clause("1.1-1")
async def test_a_thread_that_hangs_does_not_hold_up_the_end() -> None:
    house = House()
    times = ShutdownTimes(grace=0.05, spread=0.05, hard=0.05)
    async with (
        asyncio.timeout(PATIENCE),
        serving(wsgi(house.app), times) as (server, port),
        raw_client(port) as client,
    ):
        try:
            client.send(INVOKE)
            await client.head()
            server.stop()
            await server.stopped()
            assert [thread.daemon for thread in threads()] == [True]
            assert not [task for task in asyncio.all_tasks() if task.get_name() == "wsgi"]
            assert await client.rest() == b""
        finally:
            house.release.set()
