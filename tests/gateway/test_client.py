"""gateway.client against a real gateway, and against servers that are none."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from gateway.client import (
    CompletionState,
    ConnectionLost,
    DataType,
    GatewayUnreachable,
    ModelStreamFailed,
    PartwayError,
    PayloadPart,
    PlatformStreamFailed,
    Stream,
    StreamEnded,
    StreamRefused,
    connect,
)
from gateway.streams.policy import StreamPolicy
from protocol import limits
from protocol.limits import (
    CLIENT_RECEIVE_HIGH_WATER,
    MAX_ENVELOPE_BYTES,
    MAX_ENVELOPE_FRAGMENTS,
    MAX_PART_BYTES,
    MAX_SOCKET_READ,
    PART_OVERHEAD,
    WRITE_HIGH_WATER,
)
from tests.frame_factory import (
    BINARY,
    CLOSE,
    CONTINUATION,
    KEY,
    PING,
    PONG,
    TEXT,
    close,
    frame,
)
from tests.wire.peers import (
    ENDPOINT,
    MSGPACK,
    ModelStream,
    RawContainer,
    RunningGateway,
    soon,
    switching,
)

KIB = 1024
MIB = 1024 * KIB

EMPTY_PART = b"\x81\xabPayloadPart\x81\xa5Bytes\xc4\x00"
MODEL_FAILED = b"\x81\xb0ModelStreamError\x82\xa7Message\xa1m\xa9ErrorCode\xa44000"


@pytest.fixture(autouse=True)
def _no_leaks(no_leaks: None) -> None:
    """No task and no socket outlives a test."""


def url_of(server: RunningGateway | RawContainer) -> str:
    return f"http://127.0.0.1:{server.port}"


@asynccontextmanager
async def echo_container() -> AsyncIterator[int]:
    """Gives back each message; another implementation of RFC 6455 than ours."""

    async def echo(connection: ServerConnection) -> None:
        async for message in connection:
            await connection.send(message)

    async with serve(echo, "127.0.0.1", 0, max_size=None, compression=None) as server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def replying(answer: Callable[[bytes], bytes | None]) -> AsyncIterator[RawContainer]:
    """Something at a gateway's place that answers an upgrade with these bytes."""
    async with RawContainer(answer) as server:
        yield server


def grant(request: bytes) -> bytes:
    """What a gateway says to our client's upgrade."""
    return switching(request, f"Sec-WebSocket-Protocol: {MSGPACK}", "x-amzn-requestid: abc")


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something of which nobody tells."""

    async def poll() -> None:
        while not condition():  # noqa: ASYNC110 (nobody sets an event)
            await asyncio.sleep(0.002)

    await soon(poll(), what)


async def settled(value: Callable[[], int], quiet: float = 0.3) -> int:
    """The value once it has not changed for a while."""
    last, since = value(), asyncio.get_running_loop().time()
    while asyncio.get_running_loop().time() - since < quiet:
        await asyncio.sleep(0.01)
        if value() != last:
            last, since = value(), asyncio.get_running_loop().time()
    return last


async def all_parts(stream: Stream) -> list[PayloadPart]:
    return [part async for part in stream]


async def iterate(stream: Stream, received: list[PayloadPart]) -> None:
    async for part in stream:
        received.append(part)


# --- A conversation ------------------------------------------------------------------------------


async def test_the_example_of_the_docs(gateway_for):
    async with echo_container() as port:
        gateway = await gateway_for(container_port=port)
        async with connect(url_of(gateway), ENDPOINT) as stream:
            await stream.send_text("Grüße")
            await stream.send_bytes(b"\x00\xff")
            first, second = await soon(stream.receive()), await soon(stream.receive())
            await stream.end_input()
            rest = await soon(all_parts(stream))
    assert first == PayloadPart("Grüße".encode(), DataType.UTF8, CompletionState.COMPLETE)
    assert second == PayloadPart(b"\x00\xff", DataType.BINARY, CompletionState.COMPLETE)
    assert rest == []
    assert gateway.causes() == {"completed": 1}


@pytest.mark.clause("1.2-1", "1.2-3", "1.3-1")
async def test_a_part_is_a_frame_both_ways(gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT) as stream:
        model = await container.stream()
        await stream.send_text("a", partial=True)
        await stream.send_text("")
        await stream.send_bytes(b"b", partial=True)
        await stream.send(PayloadPart(b"c", DataType.BINARY, CompletionState.COMPLETE))
        up = [(part.opcode, part.fin, part.payload) for part in await model.frames(4)]
        model.send(frame(TEXT, b"\xf0\x9f", fin=False), frame(CONTINUATION, b"\x8c\x8d"))
        model.send(frame(BINARY, b""))
        down = [await soon(stream.receive()) for _ in range(3)]
    assert up == [
        (TEXT, False, b"a"),
        (CONTINUATION, True, b""),
        (BINARY, False, b"b"),
        (CONTINUATION, True, b"c"),
    ]
    assert down == [
        PayloadPart(b"\xf0\x9f", DataType.UTF8, CompletionState.PARTIAL),
        PayloadPart(b"\x8c\x8d", DataType.UTF8, CompletionState.COMPLETE),
        PayloadPart(b"", DataType.BINARY, CompletionState.COMPLETE),
    ]


@pytest.mark.clause("1.5-11", "1.5-12")
async def test_last_words_arrive_after_the_input_has_ended(gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT) as stream:
        model = await container.stream()
        await stream.end_input()
        assert (await model.frame()).payload == (1000).to_bytes(2, "big")
        model.send(frame(TEXT, b"last "), frame(TEXT, b"words"), close(1000))
        assert [part.payload for part in await soon(all_parts(stream))] == [b"last ", b"words"]
        assert await soon(stream.receive()) is None
        assert await soon(stream.receive()) is None, "a clean end stays one"


async def test_parts_that_came_before_an_error_are_delivered_first(gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT) as stream:
        model = await container.stream()
        model.send(frame(TEXT, b"one"), frame(TEXT, b"two"), close(4000, b"out of memory"))
        await until(lambda: stream._ended, "the end to be known")
        received: list[PayloadPart] = []
        with pytest.raises(ModelStreamFailed, match="4000: out of memory"):
            await iterate(stream, received)
    assert [part.payload for part in received] == [b"one", b"two"]


@pytest.mark.clause("1.6-1", "3-3")
async def test_path_query_and_variant_reach_the_gateway(gateway_for, container):
    gateway = await gateway_for()
    async with connect(
        url_of(gateway),
        ENDPOINT,
        path="v1/listen",
        query="model=a%26b&rate=8000",
        variant="AllTraffic",
    ):
        model = await container.stream()
        assert model.target == "/v1/listen?model=a%26b&rate=8000"
    with pytest.raises(StreamRefused, match="TargetVariant"):
        async with connect(url_of(gateway), ENDPOINT, variant="-"):
            pass


@pytest.mark.parametrize(
    ("base", "prefix"),
    [
        ("", ""),
        ("/", ""),
        ("/base", "/base"),
        ("/base/", "/base"),
        ("/a b/ü", "/a%20b/%C3%BC"),
        ("/a%20b", "/a%20b"),
    ],
)
async def test_a_base_path_stands_in_front(base, prefix):
    async with replying(grant) as server, connect(url_of(server) + base, "a/b c"):
        asked = await server.stream()
        asked.abort()
    expected = f"{prefix}/endpoints/a%2Fb%20c/invocations-bidirectional-stream"
    assert asked.target == expected


@pytest.mark.clause("1.6-1")
async def test_the_request_id_is_the_containers_too(gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT) as stream:
        model = await container.stream()
        assert stream.request_id == model.header("x-amzn-sagemaker-request-id")
        assert len(stream.request_id) == 36


async def test_one_task_sends_while_another_receives(gateway_for):
    sent = [b"%d" % number * (number % 300) for number in range(3000)]

    async def send(stream: Stream) -> None:
        for payload in sent:
            await stream.send_bytes(payload)
        await stream.send_text("done")

    async with echo_container() as port:
        gateway = await gateway_for(container_port=port)
        async with connect(url_of(gateway), ENDPOINT) as stream:
            sending = asyncio.create_task(send(stream))
            received = [(await soon(stream.receive())).payload for _ in range(len(sent) + 1)]
            await sending
    assert received == [*sent, b"done"]


async def test_a_hundred_streams_at_once(gateway_for):
    async def talk(number: int) -> list[bytes]:
        async with connect(url_of(gateway), ENDPOINT) as stream:
            for turn in range(5):
                await stream.send_text(f"{number}.{turn}")
            answers = [(await soon(stream.receive())).payload for _ in range(5)]
            await stream.end_input()
            assert await soon(stream.receive()) is None
        return answers

    async with echo_container() as port:
        gateway = await gateway_for(StreamPolicy(connect_timeout=5), container_port=port)
        found = await asyncio.gather(*(talk(number) for number in range(100)))
    assert found == [[b"%d.%d" % (number, turn) for turn in range(5)] for number in range(100)]
    assert gateway.causes() == {"completed": 100}


# --- Size and back-pressure ----------------------------------------------------------------------


@pytest.mark.clause("1.3-3")
async def test_the_largest_part_goes_up_and_comes_back(gateway_for):
    payload = bytes(range(256)) * (MAX_PART_BYTES // 256)
    async with echo_container() as port:
        gateway = await gateway_for(container_port=port)
        async with connect(url_of(gateway), ENDPOINT) as stream:
            await stream.send_bytes(payload)
            part = await asyncio.wait_for(stream.receive(), 20)
    assert part.payload == payload


@pytest.mark.clause("1.5-10")
async def test_a_part_over_the_limit_is_the_senders_fault(gateway_for, container):
    gateway = await gateway_for(StreamPolicy(max_part=1000))
    async with connect(url_of(gateway), ENDPOINT) as stream:
        await container.stream()
        await stream.send_bytes(bytes(1001))
        with pytest.raises(ModelStreamFailed, match="over 1000 bytes") as caught:
            await soon(stream.receive())
    assert caught.value.code == "InputStreamError"
    assert not caught.value.reconnect


async def test_who_does_not_iterate_holds_the_model_up(gateway_for, container):
    """Memory is bounded in the client and in the gateway, and nothing is lost."""
    piece, count = 64 * KIB, 1024
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT) as stream:
        model = await container.stream()
        session = next(iter(gateway.gateway.streams.sessions))
        numbered = [number.to_bytes(4, "big") + bytes(piece - 4) for number in range(count)]
        model.send(*(frame(BINARY, payload) for payload in numbered))  # 64 MiB at once
        await until(lambda: not stream._connection.reading, "the client to stop reading")
        await until(lambda: not session.container._connection.reading, "the gateway to stop")
        unsent = await settled(model.writer.transport.get_write_buffer_size)
        assert unsent > 16 * MIB, "the model is held up"
        assert 0 < stream._held <= CLIENT_RECEIVE_HIGH_WATER + piece + PART_OVERHEAD
        assert stream._connection.buffered_bytes <= piece + 2 * MAX_SOCKET_READ
        assert session.buffered_bytes <= WRITE_HIGH_WATER + 3 * piece + 2 * MAX_SOCKET_READ
        for payload in numbered:
            assert (await soon(stream.receive())).payload == payload
        assert stream._held == 0


async def test_a_model_that_does_not_read_holds_the_sender_up(gateway_for):
    sent = 0

    async def send(stream: Stream) -> None:
        nonlocal sent
        for number in range(1024):
            await stream.send_bytes(number.to_bytes(4, "big") + bytes(64 * KIB - 4))
            sent += 1

    async with RawContainer(receive_buffer=64 * KIB) as container:
        gateway = await gateway_for(container_port=container.port)
        async with connect(url_of(gateway), ENDPOINT) as stream:
            model = await container.stream()
            sending = asyncio.create_task(send(stream))
            held_up_at = await settled(lambda: sent)
            assert held_up_at < 512, "64 MiB would fit nowhere but in memory"
            assert stream._connection.buffered_bytes <= WRITE_HIGH_WATER + 2 * 64 * KIB
            session = next(iter(gateway.gateway.streams.sessions))
            assert session.buffered_bytes <= WRITE_HIGH_WATER + 3 * 64 * KIB + 2 * MAX_SOCKET_READ
            for number in range(1024):
                assert (await model.frame()).payload[:4] == number.to_bytes(4, "big")
            await soon(sending)


async def test_a_sender_that_waits_learns_of_the_end(gateway_for):
    async def send(stream: Stream) -> None:
        while True:
            await stream.send_bytes(bytes(64 * KIB))

    async with RawContainer(receive_buffer=64 * KIB) as container:
        gateway = await gateway_for(container_port=container.port)
        async with connect(url_of(gateway), ENDPOINT) as stream:
            model = await container.stream()
            sending = asyncio.create_task(send(stream))
            await until(lambda: not stream._writable.is_set(), "the sender to be held up")
            await settled(lambda: stream._connection.taken_bytes)
            model.reset()
            with pytest.raises(PartwayError):
                await soon(sending, "the sender to be told")


@asynccontextmanager
async def held_up() -> AsyncIterator[tuple[Stream, ModelStream, int]]:
    """A stream to a gateway that takes nothing, and how many parts of 64 KiB it has been sent."""
    async with (
        RawContainer(grant, receive_buffer=64 * KIB) as server,
        connect(url_of(server), ENDPOINT) as stream,
    ):
        at_gateway = await server.stream()
        sent = 0
        try:
            while stream._writable.is_set():
                await soon(stream.send_bytes(bytes(64 * KIB)), "a send that nothing held up")
                sent += 1
                if not stream._writable.is_set():
                    await settled(lambda: stream._connection.taken_bytes, 0.2)
            yield stream, at_gateway, sent
        finally:
            at_gateway.abort()


async def test_tasks_that_send_at_once_queue_nothing_past_the_mark():
    async with held_up() as (stream, at_gateway, sent):
        pieces = [bytes([number]) * MIB for number in range(50)]
        sending = [asyncio.create_task(stream.send_bytes(piece)) for piece in pieces]
        await asyncio.sleep(0.05)
        most = stream._connection.unsent_bytes
        for _ in range(sent):
            await at_gateway.frame()
        for piece in pieces:
            assert piece in (await at_gateway.frame()).payload
            most = max(most, stream._connection.unsent_bytes)
        await soon(asyncio.gather(*sending))
        assert most <= WRITE_HIGH_WATER + MIB + KIB


async def test_a_send_that_is_given_up_has_sent_nothing():
    """So that trying again sends it once; the same for the end of the input."""
    async with held_up() as (stream, at_gateway, sent):
        for give_up in (stream.send_text("once"), stream.end_input()):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(give_up, 0.05)
        again = asyncio.create_task(stream.send_text("once"))
        for _ in range(sent):
            assert len((await at_gateway.frame()).payload) > 64 * KIB
        await soon(again)
        await soon(stream.end_input())
        assert b"once" in (await at_gateway.frame()).payload
        assert b"InputEnd" in (await at_gateway.frame()).payload
        with pytest.raises(StreamEnded):
            await stream.send_text("more")


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        (frame(BINARY, MODEL_FAILED), ModelStreamFailed),
        (close(1000), StreamEnded),
        (close(1011), ConnectionLost),
        (b"", ConnectionLost),
    ],
    ids=["ModelStreamError", "1000", "1011", "RST"],
)
async def test_a_sender_that_waits_is_told_how_the_stream_ended(ending, error):
    async with held_up() as (stream, at_gateway, _):
        waiting = [asyncio.create_task(stream.send_text("x")) for _ in range(2)]
        waiting.append(asyncio.create_task(stream.end_input()))
        await asyncio.sleep(0)
        at_gateway.send(ending)
        if not ending:
            at_gateway.reset()
        for sending in waiting:
            with pytest.raises(error):
                await soon(sending)


async def test_parts_without_bytes_count_too():
    count = 30_000
    async with replying(grant) as server, connect(url_of(server), ENDPOINT) as stream:
        at_gateway = await server.stream()
        at_gateway.send(frame(BINARY, EMPTY_PART) * count, close(1000))
        await until(lambda: not stream._connection.reading, "the client to stop reading")
        await asyncio.sleep(0.05)
        assert len(stream._parts) <= CLIENT_RECEIVE_HIGH_WATER // PART_OVERHEAD + 1
        received = await soon(all_parts(stream))
        assert received == [PayloadPart(b"")] * count
        assert stream._held == 0
        at_gateway.abort()


# --- Liveness ------------------------------------------------------------------------------------


async def test_a_gateway_that_answers_no_ping_is_lost(monkeypatch):
    monkeypatch.setattr(limits, "GATEWAY_PING_INTERVAL", 0.1)
    async with replying(grant) as server, connect(url_of(server), ENDPOINT) as stream:
        at_gateway = await server.stream()
        with pytest.raises(ConnectionLost, match="answered none of 6 pings") as caught:
            await soon(stream.receive())
        with pytest.raises(ConnectionLost):
            await stream.send_text("too late")
        assert [(await at_gateway.frame()).opcode for _ in range(6)] == [PING] * 6
        assert await at_gateway.eof() == b"", "no Close is waited for"
        at_gateway.abort()
    assert caught.value.reconnect


async def test_a_pong_answers_and_data_does_not(monkeypatch):
    monkeypatch.setattr(limits, "GATEWAY_PING_INTERVAL", 0.1)
    async with replying(grant) as server, connect(url_of(server), ENDPOINT) as stream:
        at_gateway = await server.stream()
        for _ in range(5):
            at_gateway.send(frame(PONG, (await at_gateway.frame()).payload))
        assert not stream._ended
        for _ in range(2):
            assert (await at_gateway.frame()).opcode == PING
            at_gateway.send(frame(BINARY, EMPTY_PART))
        received: list[PayloadPart] = []
        with pytest.raises(ConnectionLost, match="answered none"):
            await soon(iterate(stream, received))
        assert len(received) == 2
        at_gateway.abort()


async def test_a_silent_stream_goes_on(gateway_for, container, monkeypatch):
    monkeypatch.setattr(limits, "GATEWAY_PING_INTERVAL", 0.05)
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT) as stream:
        model = await container.stream()
        await asyncio.sleep(0.5)
        model.send(frame(BINARY, b"still there"))
        assert (await soon(stream.receive())).payload == b"still there"


async def test_nobody_is_lost_while_the_client_does_not_read(gateway_for, container, monkeypatch):
    """A pong would wait behind what is not read, unseen."""
    monkeypatch.setattr(limits, "GATEWAY_PING_INTERVAL", 0.1)
    piece, count = 64 * KIB, 256
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT) as stream:
        model = await container.stream()
        model.send(*(frame(BINARY, bytes(piece)) for _ in range(count)))
        await until(lambda: not stream._connection.reading, "the client to stop reading")
        await asyncio.sleep(0.6)
        for _ in range(count):
            assert len((await soon(stream.receive())).payload) == piece
        await asyncio.sleep(0.4)
        assert not stream._ended


async def test_who_reads_again_pings_again(monkeypatch):
    monkeypatch.setattr(limits, "GATEWAY_PING_INTERVAL", 0.1)
    full = CLIENT_RECEIVE_HIGH_WATER // PART_OVERHEAD + 1
    async with replying(grant) as server, connect(url_of(server), ENDPOINT) as stream:
        at_gateway = await server.stream()
        at_gateway.send(frame(BINARY, EMPTY_PART) * full)
        await until(lambda: not stream._connection.reading, "the client to stop reading")
        await asyncio.sleep(0.4)
        assert not stream._ended
        received: list[PayloadPart] = []
        with pytest.raises(ConnectionLost, match="answered none"):
            await soon(iterate(stream, received))
        assert len(received) == full
        at_gateway.abort()


async def test_no_ping_follows_the_end(monkeypatch):
    monkeypatch.setattr(limits, "GATEWAY_PING_INTERVAL", 0.1)

    def answer(request: bytes) -> bytes:
        return grant(request) + frame(BINARY, MODEL_FAILED)

    async with replying(answer) as server, connect(url_of(server), ENDPOINT) as stream:
        at_gateway = await server.stream()
        with pytest.raises(ModelStreamFailed, match="4000: m"):
            await soon(stream.receive())
        await asyncio.sleep(0.5)
        closing = asyncio.create_task(stream.close())
        assert (await at_gateway.frame()).opcode == CLOSE
        at_gateway.abort()
        await soon(closing)


# --- Leaving -------------------------------------------------------------------------------------


@pytest.mark.clause("1.5-9")
async def test_leaving_early_cancels_the_stream(gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT) as stream:
        model = await container.stream()
        model.send(frame(TEXT, b"unread"))
    assert (await model.until_close())[-1].payload[:2] == (1001).to_bytes(2, "big")
    assert gateway.causes() == {"client_cancelled": 1}
    with pytest.raises(StreamEnded):
        await stream.send_text("too late")


async def test_an_exception_in_the_block_leaves_it_as_it_is(gateway_for, container):
    gateway = await gateway_for()

    async def fail() -> None:
        async with connect(url_of(gateway), ENDPOINT):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert (await (await container.stream()).frame()).opcode == CLOSE


@pytest.mark.parametrize("where", ["receiving", "sending", "in between"])
async def test_a_cancelled_task_leaves_nothing(gateway_for, where):
    at_work = asyncio.Event()

    async def work() -> None:
        async with connect(url_of(gateway), ENDPOINT) as stream:
            at_work.set()
            if where == "receiving":
                await stream.receive()
            while where == "sending":
                await stream.send_bytes(bytes(64 * KIB))
            await asyncio.Event().wait()

    async with RawContainer(receive_buffer=64 * KIB) as container:
        gateway = await gateway_for(container_port=container.port)
        task = asyncio.create_task(work())
        await soon(at_work.wait())
        model = await container.stream()
        if where == "sending":
            await until(
                lambda: not next(iter(gateway.gateway.streams.sessions)).client._connection.reading,
                "back-pressure",
            )
        task.cancel()
        reading = asyncio.create_task(model.until_close())
        with pytest.raises(asyncio.CancelledError):
            await soon(task)
        assert (await reading)[-1].payload[:2] == (1001).to_bytes(2, "big")
    assert gateway.causes() == {"client_cancelled": 1}


async def test_cancelling_while_the_stream_opens_leaves_nothing(gateway_for):
    async with RawContainer(lambda request: None) as container:
        gateway = await gateway_for(container_port=container.port)

        async def work() -> None:
            async with connect(url_of(gateway), ENDPOINT):
                pytest.fail("nobody answered")

        task = asyncio.create_task(work())
        model = await container.stream()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(task)
        model.reset()


async def test_closing_twice_and_then_leaving(gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT) as stream:
        await container.stream()
        await soon(stream.close())
        await soon(stream.close())
        assert await soon(stream.receive()) is None


async def test_closing_frees_a_task_that_receives(gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT) as stream:
        await container.stream()
        receiving = asyncio.create_task(stream.receive())
        await asyncio.sleep(0)
        await stream.close()
        assert await soon(receiving) is None


# --- Errors --------------------------------------------------------------------------------------


@pytest.mark.clause("1.5-1")
@pytest.mark.parametrize(
    ("code", "reconnect"),
    [
        (1000, False),
        (1001, True),
        (1002, False),
        (1003, False),
        (1007, False),
        (1008, False),
        (1009, False),
        (1011, True),
        (1012, True),
        (1013, True),
        (1014, True),
        (3000, False),
        (4000, False),
        (4999, False),
    ],
)
async def test_the_models_own_end(gateway_for, container, code, reconnect):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT) as stream:
        model = await container.stream()
        model.send(close(code, b"because"))
        with pytest.raises(ModelStreamFailed) as caught:
            await soon(stream.receive())
        with pytest.raises(ModelStreamFailed):
            await stream.send_text("too late")
        with pytest.raises(ModelStreamFailed):
            await stream.end_input()
    assert (caught.value.code, caught.value.message) == (str(code), "because")
    assert caught.value.reconnect is reconnect
    assert str(caught.value) == f"{code}: because"


@pytest.mark.clause("1.5-3")
async def test_a_container_that_is_lost(gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT) as stream:
        (await container.stream()).reset()
        with pytest.raises(ModelStreamFailed) as caught:
            await soon(stream.receive())
    assert caught.value.code == "1006"
    assert caught.value.reconnect


@pytest.mark.clause("1.5-1")
async def test_the_models_normal_close_as_a_clean_end(gateway_for, container):
    gateway = await gateway_for(StreamPolicy(normal_close="end"))
    async with connect(url_of(gateway), ENDPOINT) as stream:
        (await container.stream()).send(close(1000))
        assert await soon(stream.receive()) is None
        with pytest.raises(StreamEnded, match="the stream has ended") as caught:
            await stream.send_text("too late")
        assert not caught.value.reconnect


@pytest.mark.clause("1.4-5", "1.5-9")
async def test_the_gateways_own_end(gateway_for, container):
    gateway = await gateway_for(StreamPolicy(lifetime=0.05))
    async with connect(url_of(gateway), ENDPOINT) as stream:
        await container.stream()
        with pytest.raises(PlatformStreamFailed, match=r"lifetime of 0\.05 s") as caught:
            await soon(stream.receive())
    assert caught.value.reconnect


async def test_nothing_is_sent_after_the_end_of_input(gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT) as stream:
        await container.stream()
        await stream.end_input()
        for send in (stream.send_text("x"), stream.send_bytes(b"x"), stream.end_input()):
            with pytest.raises(StreamEnded, match="its input has ended"):
                await send


async def refused_by(url: str, **arguments: Any) -> StreamRefused:
    with pytest.raises(StreamRefused) as caught:
        async with connect(url, arguments.pop("endpoint", ENDPOINT), **arguments):
            pytest.fail("a stream opened")
    return caught.value


@pytest.mark.clause("4-1", "4-2", "4-6")
async def test_refused_for_what_was_asked(gateway_for):
    gateway = await gateway_for()
    refusal = await refused_by(url_of(gateway), endpoint="nobody")
    assert (refusal.status, refusal.error) == (400, "InputValidationError")
    assert refusal.message == "there is no endpoint 'nobody'"
    assert not refusal.reconnect
    assert str(refusal) == "InputValidationError (400): there is no endpoint 'nobody'"
    assert "ModelInvocationPath" in (await refused_by(url_of(gateway), path="/v1")).message


def http(status: str, body: bytes, content_type: str = "text/plain") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


@pytest.mark.clause("4-3", "4-6")
@pytest.mark.parametrize(
    ("status", "reconnect"),
    [
        ("403 Forbidden", False),
        ("404 Not Found", False),
        ("429 Too Many", True),
        ("500 Oops", True),
        ("503 Full", True),
        ("302 Elsewhere", False),
    ],
)
async def test_refused_by_the_container(gateway_for, status, reconnect):
    async with replying(lambda request: http(status, "nö, not here".encode())) as container:
        gateway = await gateway_for(container_port=container.port)
        refusal = await refused_by(url_of(gateway))
    assert (refusal.status, refusal.error) == (424, "ModelError")
    assert refusal.original_status == int(status[:3])
    assert refusal.original_message == "nö, not here"
    assert refusal.reconnect is reconnect


@pytest.mark.parametrize("body", [b"x" * 5000, b"\xff" * 5000, b"\0" * 5000], ids=["x", "ff", "0"])
async def test_refused_by_the_container_at_length(gateway_for, body):
    """All that the gateway passes on of the container's body arrives, however JSON writes it."""
    async with replying(lambda request: http("403 Forbidden", body)) as container:
        gateway = await gateway_for(container_port=container.port)
        refusal = await refused_by(url_of(gateway))
    assert (refusal.status, refusal.original_status, refusal.reconnect) == (424, 403, False)
    assert refusal.original_message == body[:2048].decode("utf-8", "replace")


@pytest.mark.clause("4-3", "4-6")
async def test_refused_since_no_container_listens(gateway_for):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    gateway = await gateway_for(container_port=port)
    refusal = await refused_by(url_of(gateway))
    assert (refusal.status, refusal.original_status, refusal.reconnect) == (424, 0, True)
    assert str(port) not in refusal.message, "where containers run is no client's business"


@pytest.mark.clause("4-4", "4-6")
async def test_refused_since_the_gateway_is_full(gateway_for, container):
    gateway = await gateway_for(max_streams=1)
    async with connect(url_of(gateway), ENDPOINT):
        await container.stream()
        refusal = await refused_by(url_of(gateway))
    assert (refusal.status, refusal.error) == (503, "ServiceUnavailableError")
    assert refusal.message == "all 1 streams of this gateway are in use"
    assert refusal.reconnect


@pytest.mark.parametrize(
    ("answer", "status", "error", "message", "reconnect"),
    [
        (http("404 Not Found", b"<html>no", "text/html"), 404, "HTTP error", "<html>no", False),
        (http("502 Bad Gateway", b"upstream"), 502, "HTTP error", "upstream", True),
        (http("429 Slow Down", b"[1]"), 429, "HTTP error", "[1]", True),
        (
            http("403 No", b'{"Message": 1, "OriginalStatusCode": "x"}'),
            403,
            "HTTP error",
            "",
            False,
        ),
        (http("200 OK", b"hello"), 200, "HTTP error", "hello", False),
        (http("500 Oops", b""), 500, "HTTP error", "", True),
    ],
)
async def test_refused_by_what_is_no_gateway(answer, status, error, message, reconnect):
    async with replying(lambda request: answer) as server:
        refusal = await refused_by(url_of(server))
    assert (refusal.status, refusal.error, refusal.reconnect) == (status, error, reconnect)
    assert message in refusal.message


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda request: b"SSH-2.0-OpenSSH_9.6\r\n", "no answer to the upgrade within 0.2 s"),
        (lambda request: b"\x15\x03\x01\x00\x02\x02\x46", "is not HTTP"),
        (lambda request: switching(request), "not payloadpart.v1.msgpack"),
        (
            lambda request: switching(request, f"Sec-WebSocket-Protocol: {MSGPACK}", accept="no"),
            "does not answer the key",
        ),
        (
            lambda request: switching(request, "Sec-WebSocket-Protocol: mqtt"),
            "a subprotocol came back that was not offered",
        ),
    ],
    ids=["ssh", "tls", "no subprotocol", "wrong key", "another subprotocol"],
)
async def test_no_gateway_there(answer, why):
    async with replying(answer) as server:
        with pytest.raises(GatewayUnreachable) as caught:
            async with connect(url_of(server), ENDPOINT, open_timeout=0.2):
                pytest.fail("a stream opened")
    assert why in str(caught.value)
    assert url_of(server) in str(caught.value), "it says where"
    assert caught.value.reconnect


async def test_nothing_listens_there():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(GatewayUnreachable, match=f"127.0.0.1:{port}"):
        async with connect(f"http://127.0.0.1:{port}", ENDPOINT):
            pytest.fail("a stream opened")


async def test_a_server_that_hangs_up():
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(GatewayUnreachable, match="ended before the upgrade was answered"):
            async with connect(f"http://127.0.0.1:{port}", ENDPOINT):
                pytest.fail("a stream opened")


async def test_a_server_that_does_not_answer():
    async with replying(lambda request: None) as server:
        with pytest.raises(GatewayUnreachable, match=r"no answer to the upgrade within 0\.1 s"):
            async with connect(url_of(server), ENDPOINT, open_timeout=0.1):
                pytest.fail("a stream opened")


@pytest.mark.parametrize(
    ("ending", "why"),
    [
        (lambda gateway: gateway.reset(), "ended without a Close"),
        (lambda gateway: gateway.writer.close(), "ended without a Close"),
        (lambda gateway: gateway.send(close(1011, b"oops")), "closed with 1011 oops"),
        (lambda gateway: gateway.send(close()), "closed with None"),
        (lambda gateway: gateway.send(frame(BINARY, b"x", mask=KEY)), "bad frames"),
        (lambda gateway: gateway.send(frame(0x3, b"")), "bad frames"),
        (lambda gateway: gateway.send(frame(BINARY, b"\xc1")), "no event"),
        (lambda gateway: gateway.send(frame(BINARY, b"\x80")), "no event"),
    ],
    ids=["RST", "FIN", "1011", "no code", "masked", "opcode", "no msgpack", "no event"],
)
async def test_the_connection_breaks(ending, why):
    async with replying(grant) as server, connect(url_of(server), ENDPOINT) as stream:
        assert stream.request_id == "abc"
        at_gateway = await server.stream()
        ending(at_gateway)
        with pytest.raises(ConnectionLost) as caught:
            await soon(stream.receive())
        at_gateway.abort()
    assert why in str(caught.value)
    assert caught.value.reconnect


async def test_a_message_without_end_is_not_gathered():
    async with replying(grant) as server, connect(url_of(server), ENDPOINT) as stream:
        at_gateway: ModelStream = await server.stream()
        at_gateway.send(frame(BINARY, bytes(MIB), fin=False))
        for _ in range(MAX_ENVELOPE_BYTES // MIB):
            at_gateway.send(frame(CONTINUATION, bytes(MIB), fin=False))
        with pytest.raises(ConnectionLost, match="over the limit"):
            await soon(stream.receive())


async def test_a_message_in_endless_fragments_is_not_gathered():
    async with replying(grant) as server, connect(url_of(server), ENDPOINT) as stream:
        at_gateway = await server.stream()
        at_gateway.send(frame(BINARY, fin=False))
        at_gateway.send(frame(CONTINUATION, fin=False) * (MAX_ENVELOPE_FRAGMENTS - 2))
        at_gateway.send(frame(CONTINUATION, EMPTY_PART))
        assert await soon(stream.receive()) == PayloadPart(b""), "as many as may be"
        at_gateway.send(frame(BINARY, fin=False))
        at_gateway.send(frame(CONTINUATION, fin=False) * MAX_ENVELOPE_FRAGMENTS)
        with pytest.raises(ConnectionLost, match="in too many fragments"):
            await soon(stream.receive())
        at_gateway.abort()


async def test_a_frame_over_the_limit_is_not_gathered():
    async with replying(grant) as server, connect(url_of(server), ENDPOINT) as stream:
        at_gateway = await server.stream()
        at_gateway.send(frame(BINARY, announced=MAX_ENVELOPE_BYTES + 1))
        with pytest.raises(ConnectionLost, match="bad frames"):
            await soon(stream.receive())
        at_gateway.abort()


async def test_an_event_may_come_in_fragments():
    event = b"\x81\xabPayloadPart\x81\xa5Bytes\xc4\x02hi"
    async with replying(grant) as server, connect(url_of(server), ENDPOINT) as stream:
        at_gateway = await server.stream()
        at_gateway.send(frame(BINARY, event[:5], fin=False), frame(CONTINUATION, event[5:]))
        assert await soon(stream.receive()) == PayloadPart(b"hi")
        at_gateway.abort()


async def test_frames_may_come_with_the_answer_to_the_upgrade():
    event = b"\x81\xabPayloadPart\x81\xa5Bytes\xc4\x02hi"

    def answer(request: bytes) -> bytes:
        return grant(request) + frame(BINARY, event) + close(1000)

    async with replying(answer) as server, connect(url_of(server), ENDPOINT) as stream:
        assert await soon(stream.receive()) == PayloadPart(b"hi")
        assert await soon(stream.receive()) is None
        server.stop()


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8090",
        "https://127.0.0.1:8090",
        "http://",
        "http://:8090",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:port",
        "http://[::1",
        "",
    ],
)
async def test_a_url_that_is_none(url):
    with pytest.raises(ValueError):
        async with connect(url, ENDPOINT):
            pytest.fail("a stream opened")


def test_every_error_can_be_caught_as_one():
    errors = {
        ConnectionLost,
        GatewayUnreachable,
        ModelStreamFailed,
        PlatformStreamFailed,
        StreamEnded,
        StreamRefused,
    }
    assert set(PartwayError.__subclasses__()) == errors


def test_the_api_error_is_read_as_the_gateway_writes_it():
    """The members' names are the wire's; a body that lacks them is shown as it is."""
    from gateway.client import _refused
    from protocol.handshake import HandshakeRefused

    body = {"Message": "m", "OriginalStatusCode": 418, "OriginalMessage": "teapot"}
    refusal = _refused(
        HandshakeRefused(424, {"x-amzn-errortype": "ModelError"}, json.dumps(body).encode())
    )
    assert (refusal.original_status, refusal.original_message) == (418, "teapot")
    del body["Message"]
    shown = _refused(HandshakeRefused(424, {}, json.dumps(body).encode()))
    assert (shown.error, shown.message) == ("HTTP error", json.dumps(body))
