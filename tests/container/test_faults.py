"""One client's error is that client's: its neighbour's stream goes on as if nothing had been."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from partway.container.guard import LoopGuard
from partway.container.model import Model, Request
from partway.container.stream import Stream
from partway.container.workers import Processes, Threads
from tests.container.wire import RawClient, raw_client, raw_stream, serving, until
from tests.frame_factory import TEXT

pytestmark = pytest.mark.usefixtures("no_leaks")

PING = b"GET /ping HTTP/1.1\r\nHost: c\r\n\r\n"


class Faulty(Model):
    runs_on = Threads(1, queue=2, deadline=20)

    def __init__(self) -> None:
        self.asked = 0
        self.go_on = threading.Event()

    async def stream(self, stream: Stream) -> None:
        async for message in stream.messages():
            if message == "raise":
                raise LookupError("a secret")
            if message == "never yield":
                while True:
                    pass
            if message == "flood":
                while True:
                    await stream.send(bytes(100_000))
            if message == "compute":
                self.asked += 1
                message = await self.workers.run(self.wait)
            if message == "exhaust":
                message = await self.workers.run(self.exhaust)
            await stream.send(message)

    async def invoke(self, request: Request) -> bytes:
        return await self.workers.run(self.wait)

    def wait(self) -> bytes:
        """Compute until the test lets it end."""
        assert self.go_on.wait(10)
        return b"computed"

    def exhaust(self) -> bytes:
        return bytes(1 << 62)


@asynccontextmanager
async def beside_a_neighbour(model: Model) -> AsyncIterator[tuple[int, RawClient]]:
    """A server, and a stream on it that is fine before the fault and has to be after it."""
    async with asyncio.timeout(30), serving(model) as (_, port), raw_stream(port) as neighbour:
        await is_fine(neighbour)
        yield port, neighbour
        await is_fine(neighbour)
        assert b" 200 " in await answer(port, PING)


async def is_fine(client: RawClient) -> None:
    client.send_frame(TEXT, b"fine")
    assert await client.frames(1) == [(TEXT, b"fine", True)]


async def answer(port: int, request: bytes) -> bytes:
    async with raw_client(port) as client:
        client.send(request)
        return await client.head()


async def end_of(client: RawClient) -> tuple[int | None, str]:
    closed = await client.frame()
    return closed.close_code, closed.close_reason


async def test_a_handler_that_raises() -> None:
    async with beside_a_neighbour(Faulty()) as (port, _), raw_stream(port) as client:
        client.send_frame(TEXT, b"raise")
        assert await end_of(client) == (1011, "the model failed: LookupError")


async def test_a_handler_that_never_yields() -> None:
    guard = LoopGuard(limit=0.3)
    guard.start()
    try:
        async with beside_a_neighbour(Faulty()) as (port, _), raw_stream(port) as client:
            client.send_frame(TEXT, b"never yield")
            code, reason = await end_of(client)
            assert code == 1011
            assert reason.startswith("the model blocked the event loop for 0.3 s")
    finally:
        guard.stop()


async def test_a_handler_that_floods_a_client_that_does_not_read() -> None:
    async with (
        beside_a_neighbour(Faulty()) as (port, neighbour),
        raw_stream(port, receive_buffer=10_000) as client,
    ):
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        client.send_frame(TEXT, b"flood")
        for _ in range(100):
            await is_fine(neighbour)


async def test_a_client_that_vanishes_in_the_middle_of_a_message() -> None:
    async with beside_a_neighbour(Faulty()) as (port, _), raw_stream(port) as client:
        client.send_frame(TEXT, b"half a mess", fin=False)
        client.send(b"\x80\xfe\x10\x00abcd")  # the head of a frame, and nothing of it


async def test_ten_thousand_messages_in_the_queue() -> None:
    """They wait in the sockets, and each is answered in its turn."""
    model = Faulty()
    async with beside_a_neighbour(model) as (port, neighbour), raw_stream(port) as client:
        client.send_frame(TEXT, b"compute")
        for number in range(10_000):
            client.send_frame(TEXT, b"%d" % number)
        await is_fine(neighbour)
        model.go_on.set()
        assert (await client.frame()).payload == b"computed"
        for number in range(10_000):
            assert (await client.frame()).payload == b"%d" % number


async def test_a_queue_that_is_full() -> None:
    """One computes, two wait; the next are told at once, and the three are served."""
    model = Faulty()
    async with beside_a_neighbour(model) as (port, _):
        served = [asyncio.create_task(computed(port)) for _ in range(3)]
        await until(lambda: model.asked == 3)
        async with raw_stream(port) as late:
            late.send_frame(TEXT, b"compute")
            code, reason = await end_of(late)
            assert code == 1013
            assert reason
        post = b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 0\r\n\r\n"
        assert b" 503 " in await answer(port, post)
        model.go_on.set()
        assert await asyncio.gather(*served) == [b"computed"] * 3


async def computed(port: int) -> bytes:
    async with raw_stream(port) as client:
        client.send_frame(TEXT, b"compute")
        return (await client.frame()).payload


async def test_work_of_departed_clients_leaves_the_queue() -> None:
    model = Faulty()
    async with beside_a_neighbour(model) as (port, _):
        computing = asyncio.create_task(computed(port))
        await until(lambda: model.asked == 1)
        leaving = [asyncio.create_task(computed(port)) for _ in range(2)]
        await until(lambda: model.asked == 3)
        for task in leaving:
            task.cancel()
        await asyncio.wait(leaving)
        while True:  # until the runtime has seen them go
            async with raw_stream(port) as client:
                client.send_frame(TEXT, b"compute")
                closing = asyncio.create_task(client.frame())
                await asyncio.wait((closing,), timeout=0.1)
                if not closing.done():
                    model.go_on.set()
                    assert (await closing).payload == b"computed"
                    break
        assert await computing == b"computed"


async def test_a_job_that_runs_out_of_memory() -> None:
    async with beside_a_neighbour(Faulty()) as (port, _), raw_stream(port) as client:
        client.send_frame(TEXT, b"exhaust")
        code, reason = await end_of(client)
        assert code == 1011
        assert reason in ("the model failed: MemoryError", "the model failed: OverflowError")


class InProcesses(Model):
    """Computes in another process, which may die of it."""

    runs_on = Processes(1, queue=4, deadline=20)

    async def stream(self, stream: Stream) -> None:
        async for message in stream.messages():
            if message == "pid":
                await stream.send(json.dumps(await self.workers.run(self.pid)))
            elif message == "die":
                await self.workers.run(self.die)
            else:
                await stream.send(message)

    def pid(self) -> int:
        return os.getpid()

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


async def test_a_worker_process_that_is_killed() -> None:
    async with beside_a_neighbour(InProcesses()) as (port, neighbour):
        neighbour.send_frame(TEXT, b"pid")
        before = (await neighbour.frame()).payload
        async with raw_stream(port) as client:
            client.send_frame(TEXT, b"die")
            code, reason = await end_of(client)
            assert code == 1011
            assert "SIGKILL" in reason
        neighbour.send_frame(TEXT, b"pid")
        after = (await neighbour.frame()).payload
        assert json.loads(after) != json.loads(before)
        await until_well(port)


async def until_well(port: int) -> None:
    while b" 200 " not in await answer(port, PING):  # noqa: ASYNC110 (it tells nobody)
        await asyncio.sleep(0.05)
