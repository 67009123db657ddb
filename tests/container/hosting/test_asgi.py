"""An app's server, from its beginning to its end."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from partway.container.errors import LoadFailed
from partway.container.hosting.asgi import AppServer
from partway.container.hosting.asgi_messages import Receive, Scope, Send
from partway.container.shutdown import ShutdownTimes
from tests.container.hosting.apps import scripted
from tests.container.hosting.apps.scripted import (
    NAME,
    Scripted,
    ask,
    echo_request,
    response,
    serving,
)
from tests.container.wire import (
    IN_TURN,
    PATIENCE,
    closed_one_after_the_other,
    open_stream,
    raw_client,
    raw_stream,
    until,
    upgrade_request,
)
from tests.frame_factory import BINARY

pytestmark = pytest.mark.usefixtures("no_leaks")

#: No test waits for these: something else must end the wait.
ENDLESS = ShutdownTimes(grace=50, spread=50, hard=50)
SHORT = ShutdownTimes(grace=0.05, spread=0.05, hard=0.05)


# --- Loading -------------------------------------------------------------------------------------


@asynccontextmanager
async def listening(name: str = NAME) -> AsyncIterator[tuple[AppServer, int]]:
    """A server whose app is not loaded yet."""
    server = AppServer(name)
    port = await server.start()
    try:
        yield server, port
    finally:
        await server.aclose()


@pytest.mark.clause("1.1-2")
async def test_pings_are_answered_while_an_import_takes_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = threading.Event()

    class Slow:
        def __getattr__(self, name: str) -> object:
            assert release.wait(5)
            return Scripted()

    monkeypatch.setitem(sys.modules, "slow_to_import", Slow())  # type: ignore[arg-type]
    async with asyncio.timeout(PATIENCE), listening("slow_to_import:app") as (server, port):
        loading = asyncio.create_task(server.load())
        async with raw_client(port) as client:
            assert (await ask(client, "GET /ping")).status == 503
            release.set()
            await loading
            assert (await ask(client, "GET /ping")).status == 200


async def test_nothing_is_asked_of_an_app_before_its_startup_is_done() -> None:
    release = asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        scope["state"]["pool"] = "open"
        await release.wait()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    states: list[object] = []

    async def looks(scope: Scope, receive: Receive, send: Send) -> None:
        states.append(dict(scope["state"]))
        scope["state"]["mine"] = True
        await echo_request(scope, receive, send)

    scripted.app = Scripted(looks, lifespan=slow)
    async with asyncio.timeout(PATIENCE), listening() as (server, port), raw_client(port) as client:
        loading = asyncio.create_task(server.load())
        assert (await ask(client, "GET /ping")).status == 503
        assert (await ask(client, "POST /invocations")).status == 503
        release.set()
        await loading
        for _ in range(2):
            assert (await ask(client, "POST /invocations", b"hi")).body == b"hi"
    assert states == [{"pool": "open"}] * 2


async def test_a_module_that_asks_for_the_loop_gets_the_handlers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loops: list[object] = []

    class Old:
        def __getattr__(self, name: str) -> object:
            if name != "app":
                raise AttributeError(name)
            loops.append((asyncio.get_event_loop(), threading.current_thread().name))
            return Scripted()

    monkeypatch.setitem(sys.modules, "old_app", Old())  # type: ignore[arg-type]
    async with asyncio.timeout(PATIENCE), listening("old_app:app") as (server, _):
        await server.load()
    assert loops == [(asyncio.get_running_loop(), "partway-load")]


async def fails_to_start(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "a traceback"})
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("name", "app", "cause"),
    [
        ("no_such_module:app", None, ModuleNotFoundError),
        (f"{scripted.__name__}:nothing", None, AttributeError),
        (scripted.__name__, None, ValueError),
        (NAME, 5, TypeError),
        (NAME, Scripted(lifespan=fails_to_start), ZeroDivisionError),
    ],
)
async def test_an_app_that_cannot_be_loaded(name: str, app: object, cause: type[Exception]) -> None:
    scripted.app = app
    async with (
        asyncio.timeout(PATIENCE),
        listening(name) as (server, port),
        raw_client(port) as client,
    ):
        with pytest.raises(LoadFailed, match=f"the application {name} could not") as raised:
            await server.load()
        assert type(raised.value.__cause__) is cause
        assert (await ask(client, "GET /ping")).status == 503


async def test_a_stop_ends_the_loading() -> None:
    """An import cannot be ended, but need not be waited for; a startup is cancelled."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    scripted.app = Scripted(lifespan=endless)
    async with asyncio.timeout(PATIENCE):
        server = AppServer(NAME)
        await server.start()
        loading = asyncio.create_task(server.load())
        await begun.wait()
        server.stop()
        await loading
        await server.stopped()
        assert ended.is_set()


async def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "partway.container.hosting.asgi_uvicorn")
    with pytest.raises(LoadFailed) as raised:
        AppServer(NAME)
    assert "needs uvicorn: pip install 'partway[asgi]'" in str(raised.value.__cause__)


async def test_a_port_that_is_taken() -> None:
    async with serving() as (_, port):
        with pytest.raises(OSError, match="ddress already in use"):
            await AppServer(NAME, port=port).start()


# --- The end -------------------------------------------------------------------------------------


@pytest.mark.clause("1.1-1")
async def test_nothing_to_wait_for() -> None:
    async with (
        asyncio.timeout(PATIENCE),
        serving(times=ENDLESS) as (server, port),
        raw_client(port) as idle,
        raw_client(port) as silent,
    ):
        await ask(idle, "GET /ping")
        server.stop()
        for client in (idle, silent):
            assert await client.rest() == b""


@pytest.mark.clause("1.1-1")
async def test_draining_refuses_what_is_new_and_lets_the_rest_end() -> None:
    scripted.app = Scripted()
    server = AppServer(NAME, times=ENDLESS)
    port = await server.start()
    await server.load()
    stopped = asyncio.create_task(server.stopped())
    async with asyncio.timeout(PATIENCE), raw_stream(port) as client, raw_client(port) as other:
        await open_stream(client)
        server.stop()
        await until(lambda: server.guard.activity.draining)
        for request in ("GET /ping", "POST /invocations", "GET /execution-parameters"):
            said = await ask(other, request)
            assert (said.status, said.body) == (503, b"the container is stopping\n")
        other.send(upgrade_request())
        said = await response(other)
        assert (said.status, said.body) == (503, b"the container is stopping\n")
        client.send_frame(BINARY, b"goes on")
        assert await client.frames(1) == [(BINARY, b"goes on", True)]
        client.send_close(1000)
        assert (await client.frame()).close_code == 1000
        await stopped
    with pytest.raises(ConnectionError):
        async with raw_client(port):
            pass


async def test_a_request_may_end_too_and_its_answer_is_whole() -> None:
    whole = bytes(4 << 20)

    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await scripted.respond(send, body=whole)

    async with (
        asyncio.timeout(PATIENCE),
        serving(Scripted(large), ENDLESS) as (server, port),
        raw_client(port, receive_buffer=4096) as client,
    ):
        client.send(b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 0\r\n\r\n")
        await client.head()
        server.stop()
        assert await client.reader.readexactly(len(whole)) == whole
        assert await client.rest() == b""


async def test_after_the_grace_streams_are_closed_one_after_the_other() -> None:
    async with serving(times=IN_TURN) as (server, port):
        await closed_one_after_the_other(server, port)


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_second_stop_hastens(at_once: bool) -> None:
    times = ShutdownTimes(grace=50, spread=50, hard=0.1)
    async with (
        asyncio.timeout(PATIENCE),
        serving(times=times) as (server, port),
        raw_stream(port) as first,
        raw_stream(port) as second,
    ):
        for client in (first, second):
            await open_stream(client)
        server.stop()
        if not at_once:
            await until(lambda: server.guard.activity.draining)
        server.stop()
        for client in (first, second):
            assert (await client.frame()).close_code == 1001


async def test_what_does_not_end_is_cancelled_without_a_word_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun = asyncio.Event()
    ended: list[str] = []

    async def deaf(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
        else:
            begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(scope["type"])

    async with (
        asyncio.timeout(PATIENCE),
        serving(Scripted(deaf, deaf), SHORT) as (server, port),
        raw_stream(port) as stream,
        raw_client(port) as client,
    ):
        client.send(b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 0\r\n\r\n")
        await begun.wait()
        server.stop()
        assert (await stream.frame()).close_code == 1001
        assert await stream.rest() == b""
        assert await client.rest() == b""
    assert sorted(ended) == ["http", "websocket"]
    assert [each.getMessage() for each in caplog.records if each.levelno > logging.INFO] == []


async def test_an_app_that_ignores_its_cancellation_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("partway.container.hosting.asgi.CANCEL_GRACE", 0.05)
    begun, release = asyncio.Event(), asyncio.Event()

    async def stubborn(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    app = Scripted(stubborn)
    async with (
        asyncio.timeout(PATIENCE),
        serving(app, SHORT) as (server, port),
        raw_client(port) as client,
    ):
        try:
            client.send(b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 0\r\n\r\n")
            await begun.wait()
            server.stop()
            await server.stopped()
            assert "handlers of the app ignore their cancellation handlers=1" in caplog.text
        finally:
            release.set()


async def test_the_lifespan_ends_after_the_last_stream() -> None:
    order: list[str] = []

    async def lifespan(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        order.append("shutdown")
        await send({"type": "lifespan.shutdown.complete"})

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await scripted.echo_stream(scope, receive, send)
        order.append("stream")

    app = Scripted(stream=stream, lifespan=lifespan)
    async with (
        asyncio.timeout(PATIENCE),
        serving(app) as (server, port),
        raw_stream(port) as client,
    ):
        await open_stream(client)
        server.stop()
        assert (await client.frame()).close_code == 1001
        client.send_close(1001)
    assert order == ["stream", "shutdown"]


async def test_a_lifespan_that_does_not_end_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("partway.container.hosting.asgi.LIFESPAN_GRACE", 0.05)
    ended: list[str] = []

    async def lifespan(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async with (
        asyncio.timeout(PATIENCE),
        serving(Scripted(lifespan=lifespan), SHORT) as (server, _),
    ):
        server.stop()
        await server.stopped()
        assert ended == ["cancelled"]
    assert "the app's lifespan did not end in time" in caplog.text


async def test_a_second_stop_hastens_the_lifespan_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partway.container.hosting.asgi.LIFESPAN_GRACE", 0.05)

    async def lifespan(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await asyncio.Event().wait()

    times = ShutdownTimes(grace=50, spread=50, hard=0.05)
    async with (
        asyncio.timeout(PATIENCE),
        serving(Scripted(lifespan=lifespan), times) as (server, port),
        raw_stream(port) as client,
    ):
        await open_stream(client)
        server.stop()
        await until(lambda: server.guard.activity.draining)
        server.stop()
        await server.stopped()


async def test_all_of_it_is_over_before_the_kill() -> None:
    """SIGKILL comes 30 s after SIGTERM; the command has what these leave."""
    from partway.container.hosting.asgi import LIFESPAN_GRACE
    from partway.container.limits import CANCEL_GRACE

    times = ShutdownTimes()
    cancelling = 3 * CANCEL_GRACE  # the handlers, the lifespan, uvicorn's own task
    in_all = times.grace + times.spread + times.hard + LIFESPAN_GRACE + cancelling
    assert in_all <= 27.5
