"""A server's end, by its rules."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from partway.container.errors import LoadFailed, SettingsRefused
from partway.container.model import Model, Request
from partway.container.models.echo import Echo
from partway.container.server import ModelServer
from partway.container.shutdown import ShutdownTimes
from partway.container.stream import Stream
from tests.container.wire import (
    IN_TURN,
    PATIENCE,
    QUICK,
    ScriptedModel,
    closed_one_after_the_other,
    open_stream,
    raw_client,
    raw_stream,
    serving,
    until,
    upgrade_request,
)
from tests.frame_factory import BINARY

pytestmark = pytest.mark.usefixtures("no_leaks")

#: No test waits for these: something else must end the wait.
ENDLESS = ShutdownTimes(grace=50, spread=50, hard=50)


async def status(port: int, request: bytes) -> bytes:
    async with raw_client(port) as client:
        client.send(request)
        return (await client.head()).split(b"\r\n")[0]


PING = b"GET /ping HTTP/1.1\r\nHost: c\r\n\r\n"


class Slow(Model):
    """Loads when it is told to."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.loaded_from: Path | None = None

    def load(self, model_dir: Path) -> None:
        if not self.go_on.wait(10):
            raise TimeoutError
        self.loaded_from = model_dir

    async def stream(self, stream: Stream) -> None: ...

    async def invoke(self, request: Request) -> bytes:
        return b"loaded"


@pytest.mark.clause("1.1-3", "1.1-6")
async def test_until_the_model_is_loaded_nothing_begins(tmp_path: Path) -> None:
    model = Slow()
    server = ModelServer(model, model_dir=tmp_path, times=QUICK)
    port = await server.start()
    loading = asyncio.create_task(server.load())
    post = b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 0\r\n\r\n"
    try:
        for request in (PING, post, upgrade_request()):
            assert await status(port, request) == b"HTTP/1.1 503 Service Unavailable"
        model.go_on.set()
        await loading
        assert model.loaded_from == tmp_path
        for request in (PING, post):
            assert await status(port, request) == b"HTTP/1.1 200 OK"
        assert await status(port, upgrade_request()) == b"HTTP/1.1 101 Switching Protocols"
    finally:
        await server.aclose()


async def test_a_model_that_cannot_be_loaded(tmp_path: Path) -> None:
    class Broken(Echo):
        def load(self, model_dir: Path) -> None:
            raise LookupError("no weights")

    server = ModelServer(Broken(), model_dir=tmp_path)
    await server.start()
    with pytest.raises(LoadFailed, match=f"Broken could not be loaded from {tmp_path}") as raised:
        await server.load()
    assert str(raised.value) == f"Broken could not be loaded from {tmp_path}"
    assert isinstance(raised.value.__cause__, LookupError)
    await server.aclose()


async def test_a_folder_that_does_not_exist_is_named_if_the_model_needs_it(tmp_path: Path) -> None:
    class Reads(Echo):
        def load(self, model_dir: Path) -> None:
            (model_dir / "weights").read_text()

    server = ModelServer(Reads(), model_dir=tmp_path / "none")
    await server.start()
    with pytest.raises(LoadFailed, match=r"none, a folder that does not exist \(--model-dir\)$"):
        await server.load()
    await server.aclose()


async def test_a_setting_that_only_loading_finds_wrong_keeps_its_own_words(tmp_path: Path) -> None:
    class Picky(Echo):
        def load(self, model_dir: Path) -> None:
            raise SettingsRefused("PICKY_ENGINE is 'x'")

    server = ModelServer(Picky(), model_dir=tmp_path)
    await server.start()
    with pytest.raises(SettingsRefused, match=r"^PICKY_ENGINE is 'x'$"):
        await server.load()
    await server.aclose()


async def test_a_stop_while_the_model_loads() -> None:
    model = Slow()
    server = ModelServer(model, times=ENDLESS)
    await server.start()
    loading = asyncio.create_task(server.load())
    async with asyncio.timeout(PATIENCE):
        await asyncio.sleep(0)
        server.stop()
        await loading
        await server.stopped()
    assert model.loaded_from is None
    model.go_on.set()


def test_all_of_it_is_over_before_the_kill() -> None:
    times = ShutdownTimes()
    assert times.grace + times.spread + times.hard <= 25


async def test_nothing_to_wait_for() -> None:
    async with (
        asyncio.timeout(PATIENCE),
        serving(times=ENDLESS) as (server, port),
        raw_client(port) as idle,
        raw_client(port) as silent,
    ):
        idle.send(b"GET /ping HTTP/1.1\r\nHost: c\r\n\r\n")
        await idle.head()
        server.stop()
        for client in (idle, silent):
            assert await client.rest() == b""


async def test_draining_refuses_what_is_new_and_lets_the_rest_end() -> None:
    server = ModelServer(Echo(), times=ENDLESS)
    port = await server.start()
    await server.load()
    stopped = asyncio.create_task(server.stopped())
    async with asyncio.timeout(PATIENCE), raw_stream(port) as client:
        await open_stream(client)
        server.stop()
        await until(lambda: server.runtime.activity.draining)
        assert await status(port, PING) == b"HTTP/1.1 503 Service Unavailable"
        assert await status(port, upgrade_request()) == b"HTTP/1.1 503 Service Unavailable"
        post = b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\nhi"
        assert await status(port, post) == b"HTTP/1.1 503 Service Unavailable"
        client.send_frame(BINARY, b"goes on")
        assert await client.frames(1) == [(BINARY, b"goes on", True)]
        client.send_close(1000)
        assert (await client.frame()).close_code == 1000
        await stopped
    with pytest.raises(ConnectionError):
        await status(port, PING)


async def test_an_invocation_may_end_too() -> None:
    begun = asyncio.Event()

    async def answer(request: Request) -> bytes:
        begun.set()
        return await request.read()

    async with (
        asyncio.timeout(PATIENCE),
        serving(ScriptedModel(on_invoke=answer), ENDLESS) as (server, port),
        raw_client(port) as client,
    ):
        client.send(b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\n")
        await begun.wait()
        server.stop()
        client.send(b"hi")
        await client.head()
        assert await client.reader.readexactly(2) == b"hi"


async def test_after_the_grace_streams_are_closed_one_after_the_other() -> None:
    async with serving(times=IN_TURN) as (server, port):
        await closed_one_after_the_other(server, port)


async def test_many_streams_on_a_busy_loop_are_closed_in_time() -> None:
    """A wait for each would add up: they are closed by the clock."""

    async def busy() -> None:
        while True:
            time.sleep(0.1)  # noqa: ASYNC251 (a loop that has much to do)
            await asyncio.sleep(0)

    times = ShutdownTimes(grace=0.05, spread=0.3, hard=50)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(20))
        server, port = await stack.enter_async_context(serving(times=times))
        clients = [await stack.enter_async_context(raw_stream(port)) for _ in range(60)]
        for client in clients:
            await open_stream(client)
        working = asyncio.create_task(busy())
        began = time.monotonic()
        server.stop()
        for client in clients:
            assert (await client.frame()).close_code == 1001
        assert time.monotonic() - began < 5, "0.1 s for each would be more"
        working.cancel()


async def test_a_second_stop_hastens() -> None:
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
        await until(lambda: server.runtime.activity.draining)
        server.stop()
        for client in (first, second):
            assert (await client.frame()).close_code == 1001


async def test_two_stops_at_once_hasten_too() -> None:
    times = ShutdownTimes(grace=50, spread=50, hard=0.1)
    async with (
        asyncio.timeout(PATIENCE),
        serving(times=times) as (server, port),
        raw_stream(port) as client,
    ):
        await open_stream(client)
        server.stop()
        server.stop()
        assert (await client.frame()).close_code == 1001


async def test_hastened_or_not_clients_have_time_to_say_goodbye() -> None:
    async with (
        asyncio.timeout(PATIENCE),
        serving(times=ENDLESS) as (server, port),
        raw_stream(port) as client,
    ):
        await open_stream(client)
        server.stop()
        server.stop()
        assert (await client.frame()).close_code == 1001
        ended = asyncio.create_task(client.eof())
        await asyncio.wait((ended,), timeout=0.2)
        assert not ended.done(), "this client is slow to answer"
        client.send_close(1001)
        assert await ended == b""


async def test_what_does_not_say_goodbye_is_aborted() -> None:
    ended: list[str] = []

    async def deaf(stream: Stream) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    times = ShutdownTimes(grace=0.05, spread=0.05, hard=0.05)
    async with (
        asyncio.timeout(PATIENCE),
        serving(ScriptedModel(on_stream=deaf), times) as (server, port),
        raw_stream(port) as client,
    ):
        server.stop()
        assert (await client.frame()).close_code == 1001
        assert await client.rest() == b""
    assert ended == ["cancelled"]


async def test_an_invocation_that_never_answers_is_cancelled() -> None:
    begun = asyncio.Event()
    ended: list[str] = []

    async def never(invocation: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    model = ScriptedModel(on_invoke=never)  # type: ignore[arg-type]
    times = ShutdownTimes(grace=0.05, spread=0.05, hard=0.05)
    async with (
        asyncio.timeout(PATIENCE),
        serving(model, times) as (server, port),
        raw_client(port) as client,
    ):
        client.send(b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 0\r\n\r\n")
        await begun.wait()
        server.stop()
        assert await client.rest() == b""
    assert ended == ["cancelled"]


async def test_a_port_that_is_taken() -> None:
    async with serving() as (_, port):
        with pytest.raises(OSError, match="address already in use"):
            await ModelServer(Echo(), port=port).start()


class Unloading(Model):
    def __init__(self, unload: Callable[[], None]) -> None:
        self.told: list[str] = []
        self._unload = unload

    def load(self, model_dir: Path) -> None:
        self.told.append("load")

    def unload(self) -> None:
        self.told.append("unload")
        self._unload()

    async def stream(self, stream: Stream) -> None:
        try:
            async for _ in stream.messages():
                pass
        finally:
            self.told.append("stream's end")


async def test_a_model_lets_go_once_everything_has_ended() -> None:
    model = Unloading(lambda: None)
    async with serving(model) as (server, port):
        async with raw_stream(port):
            await until(lambda: bool(server.runtime.activity.streams))
            await server.aclose()
        await server.aclose()
    assert model.told == ["load", "stream's end", "unload"]


async def test_one_that_was_not_loaded_is_not_asked_to() -> None:
    model = Unloading(lambda: None)
    server = ModelServer(model)
    await server.start()
    await server.aclose()
    assert model.told == []


async def test_a_model_that_fails_to_let_go(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise LookupError("gone")

    async with serving(Unloading(fail)):
        pass
    assert "the model failed what=unload" in caplog.text


async def test_a_model_that_never_lets_go(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("partway.container.server.UNLOAD_GRACE", 0.05)
    let_go = threading.Event()
    try:
        async with asyncio.timeout(PATIENCE), serving(Unloading(lambda: let_go.wait(10) and None)):
            pass
        assert "the model's unload() takes too long seconds=0.05" in caplog.text
    finally:
        let_go.set()
