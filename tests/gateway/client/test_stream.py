"""partway.gateway.client.stream over both wires: conversations, bounds, leaving."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from partway.gateway.client import (
    ClientStream,
    CompletionState,
    DataType,
    ModelStreamFailed,
    PartwayError,
    PayloadPart,
    StreamEnded,
    StreamRefused,
    connect,
)
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.limits import CLIENT_RECEIVE_HIGH_WATER, GATEWAY_PING_INTERVAL
from partway.protocol.limits import KIB, MAX_PART_BYTES, MIB, PART_OVERHEAD, WRITE_HIGH_WATER
from tests.frame_factory import BINARY, CONTINUATION, TEXT, close, frame
from tests.gateway.client.peers import (
    ALL_IS_SAID,
    all_parts,
    echo_container,
    iterate,
    settled,
    until,
    url_of,
)
from tests.wire.peers import ENDPOINT, MAX_SOCKET_READ, RawContainer, soon

# --- A conversation -------------------------------------------------------------------------------


async def test_the_example_of_the_docs(transport, gateway_for):
    async with echo_container() as port:
        gateway = await gateway_for(ALL_IS_SAID, container_port=port)
        async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
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
async def test_a_part_is_a_frame_both_ways(transport, gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
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
async def test_last_words_arrive_after_the_input_has_ended(transport, gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        model = await container.stream()
        await stream.end_input()
        assert (await model.frame()).payload == (1000).to_bytes(2, "big")
        model.send(frame(TEXT, b"last "), frame(TEXT, b"words"), close(1000))
        assert [part.payload for part in await soon(all_parts(stream))] == [b"last ", b"words"]
        assert await soon(stream.receive()) is None
        assert await soon(stream.receive()) is None, "a clean end stays one"


async def test_parts_that_came_before_an_error_are_delivered_first(
    transport, gateway_for, container
):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        model = await container.stream()
        model.send(frame(TEXT, b"one"), frame(TEXT, b"two"), close(4000, b"out of memory"))
        await until(lambda: stream._ended, "the end to be known")
        received: list[PayloadPart] = []
        with pytest.raises(ModelStreamFailed, match="4000: out of memory"):
            await iterate(stream, received)
    assert [part.payload for part in received] == [b"one", b"two"]


@pytest.mark.clause("1.6-1", "3-3")
async def test_path_query_and_names_reach_the_gateway(transport, gateway_for, container):
    gateway = await gateway_for()
    async with connect(
        url_of(gateway),
        ENDPOINT,
        transport=transport,
        path="v1/listen",
        query="model=a%26b&rate=8000",
        variant="AllTraffic",
    ):
        model = await container.stream()
        assert model.target == "/v1/listen?model=a%26b&rate=8000"
    with pytest.raises(StreamRefused, match="TargetVariant"):
        async with connect(url_of(gateway), ENDPOINT, transport=transport, variant="-"):
            pass
    with pytest.raises(StreamRefused, match="TargetContainerHostname is 'pre'"):
        async with connect(url_of(gateway), ENDPOINT, transport=transport, container="pre"):
            pass


@pytest.mark.clause("1.6-1")
async def test_the_request_id_is_the_containers_too(transport, gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        model = await container.stream()
        assert stream.request_id == model.header("x-amzn-sagemaker-request-id")
        assert len(stream.request_id) == 36


async def test_one_task_sends_while_another_receives(transport, gateway_for):
    sent = [b"%d" % number * (number % 300) for number in range(3000)]

    async def send(stream: ClientStream) -> None:
        for payload in sent:
            await stream.send_bytes(payload)
        await stream.send_text("done")

    async with echo_container() as port:
        gateway = await gateway_for(container_port=port)
        async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
            sending = asyncio.create_task(send(stream))
            received = [(await soon(stream.receive())).payload for _ in range(len(sent) + 1)]
            await sending
    assert received == [*sent, b"done"]


async def test_a_hundred_streams_at_once(transport, gateway_for):
    async def talk(number: int) -> list[bytes]:
        async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
            for turn in range(5):
                await stream.send_text(f"{number}.{turn}")
            answers = [(await soon(stream.receive())).payload for _ in range(5)]
            await stream.end_input()
            assert await soon(stream.receive()) is None
        return answers

    async with echo_container() as port:
        gateway = await gateway_for(replace(ALL_IS_SAID, connect_timeout=5), container_port=port)
        found = await asyncio.gather(*(talk(number) for number in range(100)))
    assert found == [[b"%d.%d" % (number, turn) for turn in range(5)] for number in range(100)]
    assert gateway.causes() == {"completed": 100}


# --- Size and back-pressure -----------------------------------------------------------------------


@pytest.mark.clause("1.3-3")
async def test_the_largest_part_goes_up_and_comes_back(transport, gateway_for):
    payload = bytes(range(256)) * (MAX_PART_BYTES // 256)
    async with echo_container() as port:
        gateway = await gateway_for(container_port=port)
        async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
            await stream.send_bytes(payload)
            part = await asyncio.wait_for(stream.receive(), 20)
    assert part.payload == payload


@pytest.mark.clause("1.5-10")
async def test_a_part_over_the_limit_is_the_senders_fault(transport, gateway_for, container):
    gateway = await gateway_for(StreamPolicy(max_part=1000))
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        await container.stream()
        await stream.send_bytes(bytes(1001))
        with pytest.raises(ModelStreamFailed, match="1000") as caught:
            await soon(stream.receive())
    assert caught.value.code == "InputStreamError"
    assert not caught.value.reconnect


async def test_who_does_not_iterate_holds_the_model_up(transport, gateway_for, container):
    """Memory is bounded in the client and in the gateway, and nothing is lost."""
    piece, count = 64 * KIB, 1024
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        model = await container.stream()
        session = next(iter(gateway.gateway.streams.sessions))
        numbered = [number.to_bytes(4, "big") + bytes(piece - 4) for number in range(count)]
        model.send(*(frame(BINARY, payload) for payload in numbered))  # 64 MiB at once
        await until(lambda: not stream._wire.reading, "the client to stop reading")
        await until(lambda: not session.container._connection.reading, "the gateway to stop")
        unsent = await settled(model.writer.transport.get_write_buffer_size)
        assert unsent > 16 * MIB, "the model is held up"
        assert 0 < stream._held <= CLIENT_RECEIVE_HIGH_WATER + piece + PART_OVERHEAD
        assert stream._wire.buffered_bytes <= piece + 2 * MAX_SOCKET_READ
        assert session.buffered_bytes <= WRITE_HIGH_WATER + 3 * piece + 2 * MAX_SOCKET_READ
        for payload in numbered:
            assert (await soon(stream.receive())).payload == payload
        assert stream._held == 0


async def test_a_model_that_does_not_read_holds_the_sender_up(transport, gateway_for):
    sent = 0

    async def send(stream: ClientStream) -> None:
        nonlocal sent
        for number in range(512):
            await stream.send_bytes(number.to_bytes(4, "big") + bytes(64 * KIB - 4))
            sent += 1

    async with RawContainer(receive_buffer=64 * KIB) as container:
        gateway = await gateway_for(container_port=container.port)
        async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
            model = await container.stream()
            sending = asyncio.create_task(send(stream))
            held_up_at = await settled(lambda: sent)
            assert held_up_at < 256, "32 MiB would fit nowhere but in memory"
            assert stream._wire.buffered_bytes <= WRITE_HIGH_WATER + 2 * 64 * KIB
            session = next(iter(gateway.gateway.streams.sessions))
            assert session.buffered_bytes <= WRITE_HIGH_WATER + 3 * 64 * KIB + 2 * MAX_SOCKET_READ
            for number in range(512):
                assert (await model.frame()).payload[:4] == number.to_bytes(4, "big")
            await soon(sending)


async def test_a_sender_that_waits_learns_of_the_end(transport, gateway_for):
    async def send(stream: ClientStream) -> None:
        while True:
            await stream.send_bytes(bytes(64 * KIB))

    async with RawContainer(receive_buffer=64 * KIB) as container:
        gateway = await gateway_for(container_port=container.port)
        async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
            model = await container.stream()
            sending = asyncio.create_task(send(stream))
            await until(lambda: not stream._writable.is_set(), "the sender to be held up")
            await settled(lambda: stream._wire.buffered_bytes)
            model.reset()
            with pytest.raises(PartwayError):
                await soon(sending, "the sender to be told")


# --- Liveness -------------------------------------------------------------------------------------


async def test_a_silent_stream_goes_on(transport, gateway_for, container, clock):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        model = await container.stream()
        for _ in range(10):
            clock.advance(GATEWAY_PING_INTERVAL)
            await until(lambda: not stream._pings._liveness.unanswered, "a pong")
        model.send(frame(BINARY, b"still there"))
        assert (await soon(stream.receive())).payload == b"still there"


async def test_nobody_is_lost_while_the_client_does_not_read(
    transport, gateway_for, container, clock
):
    """A pong would wait behind what is not read, unseen."""
    interval = GATEWAY_PING_INTERVAL
    piece, count = 64 * KIB, 256
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        model = await container.stream()
        model.send(*(frame(BINARY, bytes(piece)) for _ in range(count)))
        await until(lambda: not stream._wire.reading, "the client to stop reading")
        for _ in range(10):
            clock.advance(interval)
            if not stream._wire.pongs_wait:
                await until(lambda: not stream._pings._liveness.unanswered, "a pong")
        for _ in range(count):
            assert len((await soon(stream.receive())).payload) == piece
        for _ in range(10):
            clock.advance(interval)
            await until(lambda: not stream._pings._liveness.unanswered, "a pong")
        assert not stream._ended


# --- Leaving --------------------------------------------------------------------------------------


@pytest.mark.clause("2.1-4", "3-1")
@pytest.mark.parametrize("how", ["the block's end", "close()"])
@pytest.mark.parametrize("input_ended", [False, True])
async def test_leaving_after_the_answer_is_no_cancel(
    transport, gateway_for, container, how, input_ended
):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        model = await container.stream()
        if input_ended:
            await stream.end_input()
        model.send(frame(TEXT, b"an answer"), frame(TEXT, b"unread"))
        async for part in stream:
            assert part.payload == b"an answer"
            break
        if how == "close()":
            await stream.close()
    told = await model.until_close()
    # A container that has had its Close cannot get another one (clause 1.5-13).
    assert told[-1].close_code == (1000 if input_ended else 1001)
    await until(lambda: bool(gateway.causes()), "the stream's end")
    assert gateway.causes() == {"client_finished": 1}
    with pytest.raises(StreamEnded):
        await stream.send_text("too late")


@pytest.mark.clause("1.5-9", "2.1-4")
async def test_an_exception_in_the_block_cancels_the_stream(transport, gateway_for, container):
    gateway = await gateway_for()

    async def fail() -> None:
        async with connect(url_of(gateway), ENDPOINT, transport=transport):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert (await (await container.stream()).frame()).payload[:2] == (1001).to_bytes(2, "big")
    assert gateway.causes() == {"client_cancelled": 1}


@pytest.mark.parametrize("where", ["receiving", "sending", "in between"])
async def test_a_cancelled_task_leaves_nothing(transport, gateway_for, where):
    at_work: asyncio.Future[ClientStream] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
            at_work.set_result(stream)
            if where == "receiving":
                await stream.receive()
            while where == "sending":
                await stream.send_bytes(bytes(64 * KIB))
            await asyncio.Event().wait()

    async with RawContainer(receive_buffer=64 * KIB) as container:
        gateway = await gateway_for(container_port=container.port)
        task = asyncio.create_task(work())
        stream = await soon(at_work)
        model = await container.stream()
        if where == "sending":
            await until(lambda: not stream._writable.is_set(), "back-pressure")
        task.cancel()
        reading = asyncio.create_task(model.until_close())
        with pytest.raises(asyncio.CancelledError):
            await soon(task)
        assert (await reading)[-1].payload[:2] == (1001).to_bytes(2, "big")
    assert gateway.causes() == {"client_cancelled": 1}


async def test_cancelling_while_the_stream_opens_leaves_nothing(transport, gateway_for):
    async with RawContainer(lambda request: None) as container:
        gateway = await gateway_for(container_port=container.port)

        async def work() -> None:
            async with connect(url_of(gateway), ENDPOINT, transport=transport):
                pytest.fail("nobody answered")

        task = asyncio.create_task(work())
        model = await container.stream()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(task)
        model.reset()


# --- Arguments of the wrong type -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "given", "why"),
    [
        ("send", "hi", "part: a str was given; it must be a PayloadPart; send_text() takes it"),
        ("send", b"hi", "part: bytes was given; it must be a PayloadPart; send_bytes() takes it"),
        ("send", 5, "part: an int was given; it must be a PayloadPart"),
        ("send", None, "part: None was given; it must be a PayloadPart"),
        ("send", PayloadPart("hi"), "part.payload: a str was given; it must be bytes"),
        (
            "send",
            PayloadPart(b"hi", "UTF8"),
            "part.data_type: a str was given; it must be a DataType, as in DataType.UTF8",
        ),
        (
            "send",
            PayloadPart(b"hi", DataType.UTF8, True),
            (
                "part.completion: a bool was given; it must be a CompletionState, as in "
                "CompletionState.PARTIAL"
            ),
        ),
        ("send_text", b"hi", "text: bytes was given; it must be a str; send_bytes() takes it"),
        ("send_text", None, "text: None was given; it must be a str"),
        ("send_bytes", "hi", "data: a str was given; it must be bytes; send_text() takes it"),
        ("send_bytes", [1], "data: a list was given; it must be bytes"),
    ],
)
async def test_it_says_what_it_takes_and_sends_nothing(
    transport, gateway_for, container, method, given, why
):
    """The stream goes on: the next part is the first that the model hears."""
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        model = await container.stream()
        with pytest.raises(TypeError) as caught:
            await getattr(stream, method)(given)
        assert str(caught.value) == why
        await stream.send_text("next")
        assert (await soon(model.frame())).payload == b"next"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_bytes_of_any_kind_are_taken_as_they_are_now(transport, gateway_for, container, kind):
    gateway = await gateway_for()
    source = bytearray(b"as it was")
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        model = await container.stream()
        await stream.send_bytes(bytes(source) if kind is bytes else kind(source))
        source[:] = b"different"
        assert (await soon(model.frame())).payload == b"as it was"


async def test_a_part_of_the_right_types_goes(transport, gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        model = await container.stream()
        await stream.send(PayloadPart(b"", DataType.UTF8, CompletionState.PARTIAL))
        seen = await soon(model.frame())
    assert (seen.payload, seen.fin) == (b"", False)
