"""partway.container.session: a stream's events become calls, in order, and the last is closed()."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import websockets
from websockets.asyncio.client import ClientConnection

from partway.container import session as module
from partway.container.errors import ModelError
from partway.container.model import Model
from partway.container.session import Session
from partway.container.stream import Stream
from partway.container.testing import serving
from tests.container.wire import PATIENCE, until

pytestmark = pytest.mark.usefixtures("no_leaks")


class Recorder(Session["Serving"]):
    """Notes its calls; some messages are orders."""

    async def opened(self) -> None:
        self.model.calls.append("opened")

    async def text(self, message: str) -> None:
        self.model.calls.append(message)
        if message == "raise":
            raise ModelError("as asked", code=4000)
        if message == "close":
            self.stream.close(4001, "enough")
            return
        if message == "wait":
            await asyncio.Event().wait()
        await self.stream.send(message.upper())

    async def binary(self, message: bytes) -> None:
        self.model.calls.append(message.hex())

    async def ended(self) -> None:
        self.model.calls.append("ended")
        await self.stream.send("the rest")

    async def closed(self) -> None:
        await asyncio.sleep(0)  # it may await, after a cancellation too
        self.model.calls.append("closed")


class Serving(Model):
    def __init__(self, kind: type[Session[Serving]] = Recorder) -> None:
        self.kind = kind
        self.calls: list[str] = []

    async def stream(self, stream: Stream) -> None:
        await self.kind(self, stream).run()


@asynccontextmanager
async def talking(
    kind: type[Session[Serving]],
) -> AsyncIterator[tuple[list[str], ClientConnection]]:
    """The calls that a session notes, and its client."""
    model = Serving(kind)
    async with asyncio.timeout(PATIENCE), serving(model) as served, served.stream() as client:
        yield model.calls, client


async def end_of(client: ClientConnection) -> tuple[int | None, str | None]:
    await client.wait_closed()
    return client.close_code, client.close_reason


# --- Events ---------------------------------------------------------------------------------------


async def test_events_are_calls_in_their_order() -> None:
    async with talking(Recorder) as (calls, client):
        await client.send("one")
        assert await client.recv() == "ONE"
        await client.send(b"\x01\xff")
        closing = asyncio.create_task(client.close())
        assert await client.recv() == "the rest"
        await closing
        await until(lambda: calls[-1] == "closed")
        assert calls == ["opened", "one", "01ff", "ended", "closed"]


@pytest.mark.parametrize(
    ("order", "end"), [("raise", (4000, "as asked")), ("close", (4001, "enough"))]
)
async def test_without_an_end_of_the_input_there_is_no_ended(order: str, end: object) -> None:
    async with talking(Recorder) as (calls, client):
        await client.send(order)
        assert await end_of(client) == end
        await until(lambda: calls[-1] == "closed")
        assert calls == ["opened", order, "closed"]


async def test_a_client_that_leaves_cancels_and_closed_comes_all_the_same() -> None:
    async with talking(Recorder) as (calls, client):
        await client.send("wait")
        await until(lambda: "wait" in calls)
        client.transport.abort()
        await until(lambda: calls[-1] == "closed")
        assert calls == ["opened", "wait", "closed"]


async def test_a_failure_of_opened_is_the_streams() -> None:
    class Failing(Recorder):
        async def opened(self) -> None:
            raise ModelError("no room", code=4002)

    async with talking(Failing) as (calls, client):
        assert await end_of(client) == (4002, "no room")
        await until(lambda: calls == ["closed"])


# --- Messages that are not taken ------------------------------------------------------------------


class Texts(Session[Serving]):
    async def text(self, message: str) -> None: ...


class Bytes(Session[Serving]):
    async def binary(self, message: bytes) -> None: ...


@pytest.mark.parametrize(
    ("kind", "message", "reason"),
    [
        (Texts, b"x", "a binary message came; this model takes text messages only"),
        (Bytes, "x", "a text message came; this model takes binary messages only"),
        (Session, "x", "a text message came; this model takes no messages"),
    ],
)
async def test_a_message_of_the_other_kind_is_refused(
    kind: type[Session[Serving]], message: str | bytes, reason: str
) -> None:
    async with talking(kind) as (_, client):
        await client.send(message)
        assert await end_of(client) == (1003, reason)


# --- Tasks ----------------------------------------------------------------------------------------


class Interruptible(Session[Serving]):
    """Answers in a task that never ends by itself, unless it is told to fail."""

    async def text(self, message: str) -> None:
        self.model.calls.append(f"interrupted: {await self.interrupt()}")
        self.spawn(self.answer(message))

    async def answer(self, message: str) -> None:
        try:
            await self.stream.send(message)
            if message == "fail":
                raise ModelError("as asked", code=4003)
            await asyncio.Event().wait()
        finally:
            self.model.calls.append(f"end of {message}")

    async def closed(self) -> None:
        self.model.calls.append("closed")


async def test_the_next_message_interrupts_an_answer() -> None:
    async with talking(Interruptible) as (calls, client):
        for message in ("one", "two"):
            await client.send(message)
            assert await client.recv() == message
        assert calls == ["interrupted: False", "end of one", "interrupted: True"]
        client.transport.abort()
        await until(lambda: calls[-1] == "closed")
        assert calls[3:] == ["end of two", "closed"]


async def test_a_task_that_fails_ends_the_stream() -> None:
    async with talking(Interruptible) as (calls, client):
        await client.send("fail")
        assert await end_of(client) == (4003, "as asked")
        await until(lambda: calls[-1] == "closed")


async def test_answers_are_sent_after_the_end_of_the_input() -> None:
    class Late(Session[Serving]):
        async def text(self, message: str) -> None:
            self.go_on = asyncio.Event()
            self.spawn(self.answer())

        async def answer(self) -> None:
            await self.go_on.wait()
            await self.stream.send("late")

        async def ended(self) -> None:
            self.go_on.set()

    async with talking(Late) as (_, client):
        await client.send("x")
        closing = asyncio.create_task(client.close())
        assert await client.recv() == "late"
        await closing


async def test_a_task_outside_of_a_run_is_refused() -> None:
    async def work() -> None: ...

    with pytest.raises(RuntimeError, match=r"spawn\(\) was called outside of run\(\)"):
        Texts(Serving(), None).spawn(work())


# --- closed() -------------------------------------------------------------------------------------


async def test_closed_is_limited_in_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Slow(Session[Serving]):
        async def closed(self) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(module, "SESSION_CLOSED_TIMEOUT", 0.01)
    async with talking(Slow) as (_, client):
        await client.close()
        assert client.close_code == 1000
    assert "the session's closed() takes too long" in caplog.text


async def test_a_failure_of_closed_is_logged_and_changes_no_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(Recorder):
        async def closed(self) -> None:
            raise TimeoutError("of its own")

    async with talking(Failing) as (_, client):
        await client.send("raise")
        with pytest.raises(websockets.ConnectionClosedError):
            await client.recv()
        assert client.close_code == 4000
    (record,) = (each for each in caplog.records if each.levelno >= logging.ERROR)
    assert record.getMessage().startswith('the model failed what="session\'s closed()"')
