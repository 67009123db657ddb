"""A hundred streams that speak all the time: nothing is lost, and SIGTERM takes leave of each."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from partway.container.model import Model
from partway.container.shutdown import ShutdownTimes
from partway.container.stream import Stream
from tests.container.cli.commands import PATIENCE, serving, until_logged
from tests.container.wire import RawClient, raw_client, raw_stream, upgrade_request
from tests.container.wire import serving as serving_here
from tests.frame_factory import CLOSE, TEXT

STREAMS = 100
#: Seconds between two messages of a stream, and how many may be unanswered: who waits on a busy
#: machine waits for no ever longer queue.
EVERY, AHEAD = 0.05, 4

PING = b"GET /ping HTTP/1.1\r\nHost: c\r\n\r\n"
OK = b"HTTP/1.1 200 OK"
UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable"

#: What an author writes.
MODEL = """
from partway.container import Model


class Again(Model):
    async def stream(self, stream):
        async for message in stream.messages():
            await stream.send(message)
"""


class Again(Model):
    async def stream(self, stream: Stream) -> None:
        async for message in stream.messages():
            await stream.send(message)


class Speaker:
    """A client that speaks until it is closed, and counts what comes back in order."""

    def __init__(self, client: RawClient, number: int) -> None:
        self.client = client
        self.number = number
        self.sent = 0
        self.answered = 0
        self.closed_at = 0.0
        self._news = asyncio.Event()
        self._speaking = asyncio.create_task(self._speak())
        self._listening = asyncio.create_task(self._listen())

    def message(self, number: int) -> bytes:
        return f"stream {self.number} says {number}".encode()

    async def until_answered(self, count: int) -> None:
        while self.answered < count:
            assert not self._listening.done(), await self._listening
            self._news.clear()
            await self._news.wait()

    async def fall_silent(self) -> None:
        self._speaking.cancel()
        await asyncio.wait((self._speaking,))

    async def end(self) -> int | None:
        """Wait for the container's Close: its code, or 1006 where the connection ends without."""
        return await self._listening

    async def leave(self) -> None:
        await self.fall_silent()
        self._listening.cancel()
        await asyncio.wait((self._listening,))

    async def _speak(self) -> None:
        while True:
            self.client.send_frame(TEXT, self.message(self.sent))
            self.sent += 1
            await asyncio.sleep(EVERY)
            while self.sent - self.answered >= AHEAD:
                self._news.clear()
                await self._news.wait()

    async def _listen(self) -> int | None:
        try:
            while (frame := await self.client.frame()).opcode != CLOSE:
                assert frame[:2] == (True, TEXT)
                assert frame.payload == self.message(self.answered)
                self.answered += 1
                self._news.set()
        except (EOFError, ConnectionError):
            return 1006
        finally:
            self._news.set()
        await self.fall_silent()
        self.closed_at = time.monotonic()
        self.client.send_close(frame.close_code)
        return frame.close_code


@asynccontextmanager
async def crowd(port: int) -> AsyncIterator[list[Speaker]]:
    """A hundred streams, each of which has had ten answers."""
    async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
        speakers = []
        for number in range(STREAMS):
            client = await stack.enter_async_context(raw_stream(port))
            speakers.append(Speaker(client, number))
            stack.push_async_callback(speakers[-1].leave)
        await everyone(speakers, lambda speaker: 10)
        yield speakers


async def everyone(speakers: list[Speaker], count: Callable[[Speaker], int]) -> None:
    """Wait until each has had so many answers."""
    await asyncio.gather(*(speaker.until_answered(count(speaker)) for speaker in speakers))


async def answer(port: int, request: bytes) -> bytes:
    async with raw_client(port) as client:
        client.send(request)
        return (await client.head()).split(b"\r\n")[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


@pytest.mark.usefixtures("no_leaks")
async def test_nothing_is_lost_and_order_is_kept(folder: Path) -> None:
    with serving("--model", "model:Again", cwd=folder) as (_, port):
        async with crowd(port) as speakers:
            await everyone(speakers, lambda speaker: speaker.sent + 10)
            assert await answer(port, PING) == OK
            for speaker in speakers:
                await speaker.fall_silent()
                speaker.client.send_close(1000)
            ends = await asyncio.gather(*(speaker.end() for speaker in speakers))
            assert set(ends) == {1000}
            assert all(speaker.answered == speaker.sent >= 20 for speaker in speakers)


@pytest.mark.clause("1.1-1")
@pytest.mark.usefixtures("no_leaks")
async def test_sigterm_twice(folder: Path) -> None:
    """The second one is for a test's patience; the streams cannot tell it from a first."""
    with serving("--model", "model:Again", cwd=folder) as (process, port):
        async with crowd(port) as speakers:
            accepted = {speaker: speaker.sent for speaker in speakers}
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(until_logged, process, f"draining streams={STREAMS}")
            assert await answer(port, PING) == UNAVAILABLE
            assert await answer(port, upgrade_request()) == UNAVAILABLE
            # Those that are open speak on, and all that was said before is answered.
            await everyone(speakers, lambda speaker: accepted[speaker] + 5)
            process.send_signal(signal.SIGTERM)
            ends = await asyncio.gather(*(speaker.end() for speaker in speakers))
            assert set(ends) == {1001}
        assert await asyncio.to_thread(process.wait, PATIENCE) == 0


@pytest.mark.clause("1.1-1")
@pytest.mark.usefixtures("no_leaks")
async def test_the_whole_timetable() -> None:
    times = ShutdownTimes(grace=1.5, spread=1.2, hard=PATIENCE)
    async with serving_here(Again(), times) as (server, port), crowd(port) as speakers:
        accepted = {speaker: speaker.sent for speaker in speakers}
        stopped_at = time.monotonic()
        server.stop()
        ends = await asyncio.gather(*(speaker.end() for speaker in speakers))
        assert set(ends) == {1001}
        assert all(speaker.answered >= accepted[speaker] for speaker in speakers)
        closed_at = sorted(speaker.closed_at - stopped_at for speaker in speakers)
        assert closed_at[0] >= 1.49  # the loop's clock ticks in milliseconds
        assert closed_at[-1] - closed_at[0] >= 0.3  # spread, so that nobody meets a herd
