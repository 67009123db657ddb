"""The scripted container, spoken to without a gateway."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import aiohttp
import pytest
import websockets.asyncio.client as websockets_client
from websockets.exceptions import ConnectionClosed, InvalidStatus

from partway.gateway.workbench.testing import scripted_container as scripted
from partway.gateway.workbench.testing.script import CloseWith, Fragmented
from partway.gateway.workbench.testing.scripted_container import ScriptedContainer
from partway.protocol.parts import CompletionState, DataType, PayloadPart
from partway.protocol.websocket.close_codes import Close

#: The frame with which the client ends each message that it sends in fragments.
ENDING = ""

#: Seconds for a whole conversation.
PATIENCE = 20.0

Talk = Callable[..., AbstractAsyncContextManager[websockets_client.ClientConnection]]


@pytest.fixture(autouse=True)
def _no_leaks(no_leaks: None) -> None:
    """Nothing of a container outlives it."""


@asynccontextmanager
async def started(container: ScriptedContainer) -> AsyncIterator[str]:
    address = await container.start()
    try:
        yield str(address)
    finally:
        await container.aclose()


@pytest.fixture
def container() -> ScriptedContainer:
    return ScriptedContainer()


@pytest.fixture
async def talk(container: ScriptedContainer, anyio_backend: object) -> AsyncIterator[Talk]:
    """Opens a stream: ``async with talk(path) as client``."""
    async with started(container) as address:

        @asynccontextmanager
        async def connect(
            target: str = "invocations-bidirectional-stream",
        ) -> AsyncIterator[websockets_client.ClientConnection]:
            async with (
                asyncio.timeout(PATIENCE),
                websockets_client.connect(
                    f"ws://{address}/{target}", compression=None, proxy=None, max_size=None
                ) as client,
            ):
                yield client

        yield connect


async def fragments(client: websockets_client.ClientConnection) -> list[str | bytes]:
    return [fragment async for fragment in client.recv_streaming()]


async def end_of(client: websockets_client.ClientConnection) -> tuple[int, str]:
    """The container's Close: code and reason."""
    with pytest.raises(ConnectionClosed) as closed:
        await client.recv()
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason


# --- What it says --------------------------------------------------------------------------------


async def test_without_a_script_each_frame_is_said_again_before_the_next_one(talk: Talk) -> None:
    async with talk() as client:
        echoed = asyncio.Event()

        async def outgoing() -> AsyncIterator[str]:
            yield "Hel"
            await asyncio.wait_for(echoed.wait(), 5)
            yield ""
            yield "lo"

        sending = asyncio.create_task(client.send(outgoing()))
        heard = []
        async for fragment in client.recv_streaming():
            heard.append(fragment)
            echoed.set()
        await sending
        assert heard == ["Hel", "", "lo", ENDING]


async def test_the_first_rule_that_fits_is_followed(
    container: ScriptedContainer, talk: Talk
) -> None:
    container.on("ping", "pong")
    container.on(re.compile("^pi"), "pattern")
    container.on(re.compile(b"\x00"), b"zero")
    container.on(lambda message: len(message) > 6, "long", "very")
    container.on(b"quiet")
    container.replies_with(lambda message: message + message)
    async with talk() as client:
        await client.send(b"quiet")
        for said, heard in (
            ("ping", ["pong"]),
            ("pin", ["pattern"]),
            (b"a\x00", [b"zero"]),
            ("a\x00", ["a\x00a\x00"]),  # text never fits a pattern of bytes
            (b"ping", [b"pingping"]),
            ("a longer one", ["long", "very"]),
        ):
            await client.send(said)
            assert [await client.recv() for _ in heard] == heard


async def test_what_no_rule_is_for_comes_back_as_it_was_cut(
    container: ScriptedContainer, talk: Talk
) -> None:
    container.on("ping", "pong")
    async with talk() as client:
        await client.send([b"a", b"", b"bc"])
        assert await fragments(client) == [b"a", b"", b"bc", ENDING.encode()]


async def test_a_reply_has_the_fragments_that_it_was_given(
    container: ScriptedContainer, talk: Talk
) -> None:
    container.replies_with(Fragmented("Ge", "", "ne", "rating"), Fragmented(b"\x00", b"\x01"))
    async with talk() as client:
        await client.send("go")
        assert await fragments(client) == ["Ge", "", "ne", "rating"]
        assert await fragments(client) == [b"\x00", b"\x01"]


async def test_first_and_last_words(container: ScriptedContainer, talk: Talk) -> None:
    container.says_first("ready", b"\x01")
    container.says_last("bye")
    async with talk() as client:
        assert [await client.recv(), await client.recv()] == ["ready", b"\x01"]
        await client.close(1000, "done")
        assert await client.recv() == "bye"
        assert client.close_code == 1000
    assert container.streams[0].close == Close(1000, "done")


async def test_last_words_may_be_another_close(container: ScriptedContainer, talk: Talk) -> None:
    container.says_last("bye", CloseWith(1011, "no"))
    async with talk() as client:
        await client.close()
        assert await client.recv() == "bye"
        assert await end_of(client) == (1011, "no")


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (CloseWith(), (1000, "")),
        (CloseWith(4000, "out of memory"), (4000, "out of memory")),
        (CloseWith(1005), (1005, "")),
    ],
)
async def test_a_close_is_the_last_that_it_says(
    container: ScriptedContainer, talk: Talk, said: CloseWith, heard: tuple[int, str]
) -> None:
    container.replies_with("so", said)
    async with talk() as client:
        await client.send("go")
        assert await client.recv() == "so"
        assert await end_of(client) == heard
    assert container.streams[0].close is None


async def test_it_may_say_nothing(container: ScriptedContainer, talk: Talk) -> None:
    container.replies_with()
    container.says_last("end")
    async with talk() as client:
        await client.send("go")
        await client.close()
        assert await client.recv() == "end"


async def test_a_stream_keeps_the_script_that_it_began_with(
    container: ScriptedContainer, talk: Talk
) -> None:
    async with talk() as before:
        container.replies_with("new")
        async with talk() as after:
            await before.send("old")
            await after.send("old")
            assert [await before.recv(), await after.recv()] == ["old", "new"]


async def test_a_function_that_fails_ends_the_stream_and_is_in_the_log(
    container: ScriptedContainer, talk: Talk, caplog: pytest.LogCaptureFixture
) -> None:
    container.replies_with(lambda message: message.nonsense)
    async with talk() as client:
        await client.send("go")
        assert await end_of(client) == (1011, "the script failed: AttributeError")
    assert "nonsense" in caplog.text


async def test_a_client_that_reads_late_has_everything(talk: Talk) -> None:
    message = b"x" * (12 << 20)  # more than the sockets hold: the container stops reading
    async with talk() as client:
        sending = asyncio.create_task(_send(client, message, 3))
        for _ in range(3):
            assert await client.recv() == message
        await sending


async def _send(client: websockets_client.ClientConnection, message: bytes, times: int) -> None:
    for _ in range(times):
        await client.send(message)


# --- What cannot be said -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replies", "error", "says"),
    [
        ((["Hel", "lo"],), TypeError, "several replies must be several arguments"),
        ((None,), TypeError, "None was given; a reply must be"),
        (
            (CloseWith(1000), "more"),
            ValueError,
            "a CloseWith or a FailWith must be the last answer",
        ),
    ],
)
@pytest.mark.parametrize("say", ["replies_with", "says_first", "says_last", "on"])
def test_a_script_that_makes_no_sense_is_refused_where_it_is_written(
    container: ScriptedContainer, say: str, replies: tuple[object, ...], error: type, says: str
) -> None:
    with pytest.raises(error, match=says):
        getattr(container, say)(*(["hi"] if say == "on" else []), *replies)


def test_first_and_last_words_answer_nothing_so_no_function_makes_them(
    container: ScriptedContainer,
) -> None:
    for say in (container.says_first, container.says_last):
        with pytest.raises(TypeError, match="was given; a reply must be text"):
            say(str.upper)


def test_fragments_are_all_of_a_kind() -> None:
    with pytest.raises(TypeError, match="all text, or all bytes"):
        Fragmented("a", b"b")
    with pytest.raises(TypeError, match="at least"):
        Fragmented()


def test_a_code_that_may_not_travel_is_none() -> None:
    with pytest.raises(ValueError, match="1006 must not be sent"):
        CloseWith(1006)


# --- What it remembers ---------------------------------------------------------------------------


async def test_a_stream_is_remembered(container: ScriptedContainer, talk: Talk) -> None:
    async with talk("v1/listen?model=general&x=%20") as client:
        await client.send(["Hel", "lo"])
        await client.recv()
        await client.send(b"\x00")
        await client.recv()
        (stream,) = container.streams
        assert not stream.ended
    await asyncio.to_thread(container.wait_for, lambda: stream.ended)
    assert (stream.path, stream.query) == ("v1/listen", "model=general&x=%20")
    assert stream.headers["sec-websocket-version"] == "13"
    assert stream.messages == container.received == ["Hello", b"\x00"]
    assert stream.parts == [
        PayloadPart(b"Hel", DataType.UTF8, CompletionState.PARTIAL),
        PayloadPart(b"lo", DataType.UTF8, CompletionState.PARTIAL),
        PayloadPart(ENDING.encode(), DataType.UTF8, CompletionState.COMPLETE),
        PayloadPart(b"\x00", DataType.BINARY, CompletionState.COMPLETE),
    ]


async def test_waiting_for_what_does_not_come_says_what_there_is(
    container: ScriptedContainer, talk: Talk
) -> None:
    async with talk():
        with pytest.raises(TimeoutError, match="<stream on invocations-bidirectional-stream: 0 pa"):
            await asyncio.to_thread(container.wait_for, lambda: container.received, 0.01)


async def test_its_memory_has_a_bound(
    container: ScriptedContainer, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripted, "MEMORY_BYTES", 4096)
    async with talk() as client:
        await client.send(b"x" * 2000)
        await client.recv()
        await client.send(b"x" * 2000)
        assert await end_of(client) == (1009, "the scripted container's memory is full")
    with pytest.raises(InvalidStatus) as refused:
        async with talk():
            pass
    assert refused.value.response.status_code == 503


# --- The contract --------------------------------------------------------------------------------


async def test_ping_is_answered_and_other_requests_are_not(container: ScriptedContainer) -> None:
    async with started(container) as address, aiohttp.ClientSession() as session:
        async with session.get(f"http://{address}/ping") as response:
            assert (response.status, await response.read()) == (200, b"")
        async with session.get(f"http://{address}/elsewhere") as response:
            assert response.status == 404
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
        async with session.get(f"http://{address}/elsewhere", headers=upgrade) as response:
            assert response.status == 426
    assert container.streams == []


async def test_text_that_is_not_utf8_ends_the_stream(talk: Talk) -> None:
    async with talk() as client:
        await client.send(b"\xff", text=True)
        assert (await end_of(client))[0] == 1007


async def test_streams_that_are_open_are_cut_at_its_end(
    container: ScriptedContainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripted, "_SHUTDOWN", 30.0)
    address = await container.start()
    async with websockets_client.connect(f"ws://{address}/", proxy=None) as client:
        began = time.monotonic()
        await container.aclose()
        assert time.monotonic() - began < 20  # it does not wait for them
        with pytest.raises(ConnectionClosed) as cut:
            await client.recv()
        assert cut.value.rcvd is None
    assert container.streams[0].ended
