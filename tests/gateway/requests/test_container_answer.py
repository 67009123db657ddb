"""partway.gateway.requests.container_answer: one exchange, its times, its ends and its room."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest

from partway.gateway.requests.answers import AnswerPiece
from partway.gateway.requests.connections import ContainerConnections
from partway.gateway.requests.limits import ANSWER_TURN_BYTES
from partway.protocol.errors import ContainerBroke, ContainerLate, InputValidationError
from partway.protocol.limits import FRAMES_PER_TURN, PART_OVERHEAD, WRITE_HIGH_WATER
from tests.gateway.fleet.processes import eventually, soon
from tests.gateway.requests.containers import OK, ScriptedContainer, asked, pieces_of, whole
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def connections(clock):
    connections = ContainerConnections(clock)
    yield connections
    connections.close()


def connection_of(answer):
    return answer._wire


async def silent(call):
    await call.request()
    await call.end()


# --- The request ---------------------------------------------------------------------------------


async def test_what_a_container_gets(connections):
    bodies = []

    async def script(call):
        while True:
            bodies.append(await call.request())
            call.say(OK)

    async with ScriptedContainer(script) as container:
        requests = [
            asked(b"whole", ("Accept", "a/b")),
            asked(b""),
            asked(pieces_of([b"in", b"", b"chunks"])),
            asked(pieces_of([b"of a", b" length"]), length=11),
        ]
        for request in requests:
            async with await connections.ask(container.destination, request) as answer:
                assert await soon(whole(answer)) == b"ok"
        (call,) = container.calls
        host = b"POST /invocations HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % container.port
        assert call.heads == [
            host + b"Accept: a/b\r\nContent-Length: 5\r\n\r\n",
            host + b"Content-Length: 0\r\n\r\n",
            host + b"Transfer-Encoding: chunked\r\n\r\n",
            host + b"Content-Length: 11\r\n\r\n",
        ]
        assert call.chunks == [b"in", b"chunks", b""]
    assert bodies == [b"whole", b"", b"inchunks", b"of a length"]


@pytest.mark.parametrize("body", [[b"too", b" long"], [b"short"]])
async def test_a_body_that_is_not_as_long_as_it_says(connections, body):
    async with ScriptedContainer(silent) as container:
        with pytest.raises(InputValidationError, match="of the 6 bytes that its head states"):
            async with await connections.ask(
                container.destination, asked(pieces_of(body), length=6)
            ) as answer:
                await soon(answer.head())
        await eventually(lambda: container.calls[0].ended.is_set())


async def test_what_goes_wrong_with_the_body_is_told_to_who_waits(connections):
    async with ScriptedContainer(silent) as container:
        gone = ConnectionError("the client left")
        request = asked(pieces_of([b"some"], after=gone))
        with pytest.raises(ConnectionError, match="the client left"):
            async with await connections.ask(container.destination, request) as answer:
                await soon(answer.head())
        await eventually(lambda: container.calls[0].ended.is_set())


async def test_a_container_that_takes_nothing_holds_the_body_back(connections, clock):
    taken = 0

    async def endless():
        nonlocal taken
        while True:
            taken += 1
            yield bytes(WRITE_HIGH_WATER)

    async def script(call):
        call.writer.transport.pause_reading()
        await call.ended.wait()

    async with (
        ScriptedContainer(script) as container,
        await connections.ask(container.destination, asked(endless())) as answer,
    ):
        head = asyncio.create_task(answer.head())
        await eventually(lambda: connection_of(answer)._room is not None)
        clock.advance(60)
        with pytest.raises(ContainerLate, match="took nothing of the request's body for 60 s"):
            await soon(head)
        assert taken < 1000


# --- Times ---------------------------------------------------------------------------------------


@pytest.mark.clause("1.1-2")
async def test_no_answer_in_time(connections, clock):
    async with ScriptedContainer(silent) as container:
        async with await connections.ask(container.destination, asked()) as answer:
            head = asyncio.create_task(answer.head())
            await eventually(lambda: clock.armed)
            clock.advance(59.9)
            await asyncio.sleep(0)
            assert not head.done()
            clock.advance(0.1)
            with pytest.raises(ContainerLate, match="did not begin its answer within 60 s"):
                await soon(head)
        await soon(container.calls[0].ended.wait())


async def test_the_time_begins_when_the_request_has_been_sent(connections, clock):
    more = asyncio.Event()
    async with ScriptedContainer(silent) as container:
        request = asked(pieces_of([b"some"], after=more))
        async with await connections.ask(container.destination, request) as answer:
            head = asyncio.create_task(answer.head())
            await eventually(lambda: container.calls and container.calls[0].heads)
            clock.advance(1000)
            more.set()
            await eventually(lambda: answer.sent and clock.armed)
            assert not head.done()
            clock.advance(60)
            with pytest.raises(ContainerLate):
                await soon(head)


async def test_silence_in_the_body(connections, clock):
    async def script(call):
        await call.request()
        call.say(HEAD, b"2\r\nok\r\n")
        await call.end()

    async with ScriptedContainer(script) as container:
        async with await connections.ask(container.destination, asked()) as answer:
            assert await soon(answer.head())
            assert await soon(answer.piece()) == AnswerPiece(b"ok", True)
            piece = asyncio.create_task(answer.piece())
            await eventually(lambda: answer._news is not None)
            clock.advance(60)
            with pytest.raises(ContainerLate, match="the rest of its answer within 60 s"):
                await soon(piece)
        await soon(container.calls[0].ended.wait())


async def test_what_is_heard_in_time_leaves_no_timer(connections, clock):
    async def script(call):
        await call.request()
        call.say(OK.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))

    async with ScriptedContainer(script) as container:
        async with await connections.ask(container.destination, asked()) as answer:
            assert await soon(whole(answer)) == b"ok"
        assert not any(connections.timers._lines.values())
        clock.advance(60)
        assert clock.armed == []


# --- Room ----------------------------------------------------------------------------------------


async def test_a_container_is_held_back_while_nobody_takes_what_it_says(connections):
    piece = bytes(16_384)
    total = 64 * WRITE_HIGH_WATER
    said = 0

    async def script(call):
        nonlocal said
        await call.request()
        call.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % total)
        while said < total:
            call.say(piece)
            said += len(piece)
            await call.writer.drain()
        await call.end()

    async with ScriptedContainer(script) as container:
        async with await connections.ask(container.destination, asked()) as answer:
            await soon(answer.head())
            await eventually(lambda: answer._paused)
            assert said < total
            assert answer.parser.held < 3 * WRITE_HIGH_WATER
            taken = 0
            while data := await soon(answer.read()):
                taken += len(data)
            assert taken == total
        assert connections.idle == 1


async def test_tiny_chunks_are_held_to_the_same_bound_and_come_in_turns(connections):
    count = 10_000

    async def script(call):
        await call.request()
        call.say(HEAD, b"1\r\nx\r\n" * count, b"0\r\n\r\n")
        await call.end()

    async def take(answer):
        most = taken = 0
        while await answer.piece():
            taken += 1
            most = max(most, len(answer.parser.pieces))
        return taken, most

    others = 0

    async def other():
        nonlocal others
        while True:
            await asyncio.sleep(0)
            others += 1

    async with (
        ScriptedContainer(script) as container,
        await connections.ask(container.destination, asked()) as answer,
    ):
        await soon(answer.head())
        beside = asyncio.create_task(other())
        taken, most = await soon(take(answer))
        beside.cancel()
        assert taken == count
        # One turn of the parser's may bring as many more.
        assert most <= WRITE_HIGH_WATER // PART_OVERHEAD + ANSWER_TURN_BYTES // len(b"1\r\nx\r\n")
        assert others >= count // FRAMES_PER_TURN // 2


# --- Ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "before the head of an answer"),
        (b"nonsense\r\n\r\n", "not valid HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", "in the middle of the body"),
        (HEAD + b"2\r\nok\r\n", "in the middle of the body"),
        (HEAD + b"2\r\nok\r\nx", "not valid HTTP/1.1"),
    ],
)
async def test_a_broken_answer(connections, said, why):
    async def script(call):
        await call.request()
        call.say(said)

    async with ScriptedContainer(script) as container:
        with pytest.raises(ContainerBroke, match=why):
            async with await connections.ask(container.destination, asked()) as answer:
                await soon(whole(answer))
        assert connections.idle == 0


async def test_a_reset_is_no_end_of_an_answer(connections):
    may = asyncio.Event()

    async def script(call):
        await call.request()
        call.say(b"HTTP/1.1 200 OK\r\n\r\nhalf of it")
        await may.wait()
        no_linger = struct.pack("ii", 1, 0)  # RST in place of FIN
        end = call.writer.get_extra_info("socket")
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)
        call.writer.transport.abort()

    async with (
        ScriptedContainer(script) as container,
        await connections.ask(container.destination, asked()) as answer,
    ):
        await soon(answer.head())
        assert await soon(answer.read()) == b"half of it"
        may.set()
        with pytest.raises(ContainerBroke, match="the connection broke"):
            await soon(answer.read())


async def test_who_waits_can_be_told_to_go(connections):
    async with ScriptedContainer(silent) as container:
        async with await connections.ask(container.destination, asked()) as answer:
            head = asyncio.create_task(answer.head())
            await eventually(lambda: container.calls and container.calls[0].heads)
            answer.fail(ContainerBroke("its time is over"))
            with pytest.raises(ContainerBroke, match="its time is over"):
                await soon(head)
        await soon(container.calls[0].ended.wait())


async def test_an_answer_that_has_come_whole_stays(connections):
    async def script(call):
        await call.request()
        call.say(OK)
        await call.end()

    async with ScriptedContainer(script) as container:
        async with await connections.ask(container.destination, asked()) as answer:
            await soon(answer.head())
            answer.fail(ContainerBroke("its time is over"))
            assert await soon(whole(answer)) == b"ok"
        assert connections.idle == 1


async def test_who_is_cancelled_cancels_the_containers_request(connections):
    async with ScriptedContainer(silent) as container:

        async def ask():
            more = asyncio.Event()
            request = asked(pieces_of([b"some"], after=more))
            async with await connections.ask(container.destination, request) as answer:
                await answer.head()

        asking = asyncio.create_task(ask())
        await eventually(lambda: container.calls and container.calls[0].heads)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await soon(container.calls[0].ended.wait())


# --- As much of a body as comes ------------------------------------------------------------------

LONG_REFUSAL = b"HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\n"


def refusing(*, ends):
    async def script(call):
        await call.request()
        call.say(LONG_REFUSAL, b"out of memory")
        if not ends:
            await call.end()

    return script


@pytest.mark.parametrize(("most", "expected"), [(100, b"out of memory"), (3, b"out")])
async def test_what_comes_before_a_body_breaks_off(connections, most, expected):
    async with (
        ScriptedContainer(refusing(ends=True)) as container,
        await connections.ask(container.destination, asked()) as answer,
    ):
        assert (await soon(answer.head())).status == 500
        assert await soon(answer.so_far(most, 5.0)) == expected


async def test_what_comes_of_a_body_in_time(connections, clock):
    async with (
        ScriptedContainer(refusing(ends=False)) as container,
        await connections.ask(container.destination, asked()) as answer,
    ):
        await soon(answer.head())
        await eventually(lambda: answer.buffered_bytes)
        said = asyncio.create_task(answer.so_far(100, 5.0))
        await eventually(lambda: not answer.buffered_bytes)
        clock.advance(4.9)
        assert not said.done()
        clock.advance(0.1)
        assert await soon(said) == b"out of memory"


async def test_a_chunk_whose_end_has_not_come_is_counted_and_holds_nobody_back(connections):
    many = 4 * WRITE_HIGH_WATER

    async def script(call):
        await call.request()
        call.say(HEAD, b"%x\r\n" % (many + 1), bytes(many))
        await call.end()

    async with (
        ScriptedContainer(script) as container,
        await connections.ask(container.destination, asked(), whole_chunk=2 * many) as answer,
    ):
        await eventually(lambda: answer.buffered_bytes >= many)
        assert not answer.ended
