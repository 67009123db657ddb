"""partway.gateway.containers.container_answer: one exchange, its times, its ends and its room."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest

from partway.gateway.containers.answers import AnswerParser, AnswerPiece
from partway.gateway.containers.connections import ContainerConnections
from partway.gateway.containers.container_answer import ContainerAnswer
from partway.gateway.containers.limits import (
    ANSWER_PIECES_PER_TURN,
    ANSWER_TURN_BYTES,
    WHOLE_CHUNK_BYTES,
)
from partway.gateway.timing.many_timers import ManyTimers
from partway.protocol.connections.fair_turns import rounds
from partway.protocol.errors import ContainerBroke, ContainerLate, InputValidationError
from partway.protocol.limits import (
    HTTP1_BYTES_PER_TURN,
    LONG_READ,
    PART_OVERHEAD,
    WRITE_HIGH_WATER,
)
from tests.gateway.containers.containers import OK, ScriptedContainer, asked, pieces_of, whole
from tests.gateway.fleet.waiting import eventually, soon
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
        with pytest.raises(InputValidationError, match="must have 6 bytes, as its head states"):
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
            with pytest.raises(ContainerLate, match="did not continue its answer within 60 s"):
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
        assert others >= count // ANSWER_PIECES_PER_TURN // 2


# --- Turns ---------------------------------------------------------------------------------------

TINY = b"1\r\nx\r\n"
#: Chunks of one byte in one read: far more than a turn parses.
MANY = 8_000
#: Of these in the bytes that are parsed at a time, before it is known how small chunks are, and
#: once it is.
FIRST_TURN = ANSWER_TURN_BYTES // len(TINY) + 1
DENSE_TURN = HTTP1_BYTES_PER_TURN // len(TINY) + 1


class Wire:
    """A connection without a socket, whose reads are the test's."""

    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.reads = True
        self.aborted = False

    def write(self, data):
        raise AssertionError("an answer writes nothing")

    async def room(self):
        raise AssertionError("an answer writes nothing")

    def pause_reading(self):
        self.reads = False

    def resume_reading(self):
        self.reads = True

    def abort(self):
        self.aborted = True

    def over(self, *, good):
        self.good = good


class Chunks:
    """Counts the chunks that are parsed, and those in each turn of the loop."""

    def __init__(self, monkeypatch):
        self.parsed = 0
        self.most = 0
        self._before = 0
        hand_over = AnswerParser._hand_over

        def counted(parser, data, *, ends_chunk):
            self.parsed += 1
            hand_over(parser, data, ends_chunk=ends_chunk)

        monkeypatch.setattr(AnswerParser, "_hand_over", counted)

    async def __aenter__(self):
        self._counting = asyncio.create_task(self._count())
        return self

    async def __aexit__(self, *_):
        self._counting.cancel()

    async def _count(self):
        while True:
            self.most = max(self.most, self.parsed - self._before)
            self._before = self.parsed
            await asyncio.sleep(0)


def answer_on(wire, clock):
    answer = ContainerAnswer(wire, ManyTimers(clock), 0.0, 60.0, WHOLE_CHUNK_BYTES)
    answer.is_sent()
    return answer


async def body_by_read(answer):
    return await whole(answer)


async def body_by_piece(answer):
    await answer.head()
    body = b""
    while piece := await answer.piece():
        body += piece.data
    return body


TAKERS = pytest.mark.parametrize("take", [body_by_read, body_by_piece])


@TAKERS
@pytest.mark.parametrize("answers", [1, 32])
async def test_however_many_answers_of_tiny_chunks_come_a_turn_of_the_loop_parses_few(
    clock, monkeypatch, take, answers
):
    async with Chunks(monkeypatch) as chunks:
        found = [answer_on(Wire(), clock) for _ in range(answers)]
        taking = [asyncio.create_task(take(each)) for each in found]
        await asyncio.sleep(0)
        for each in found:
            each.data_received(HEAD + TINY * MANY + b"0\r\n\r\n")
        bodies = [await soon(each) for each in taking]
    assert bodies == [b"x" * MANY] * answers
    assert chunks.parsed == MANY * answers
    assert chunks.most <= FIRST_TURN + DENSE_TURN
    assert all(each._wire.reads for each in found)


async def test_a_turn_hands_over_so_many_pieces(clock):
    """A relay does a lot for each."""
    answer = answer_on(Wire(), clock)
    taking = asyncio.create_task(body_by_piece(answer))
    await asyncio.sleep(0)
    answer.data_received(HEAD + TINY * MANY + b"0\r\n\r\n")
    most = 0
    while not taking.done():
        before = len(answer.parser.pieces)
        await asyncio.sleep(0)
        most = max(most, before - len(answer.parser.pieces))
    assert taking.result() == b"x" * MANY
    assert most <= ANSWER_PIECES_PER_TURN


async def test_clients_with_a_backlog_have_their_turns_between_those_of_answers(clock):
    found = [answer_on(Wire(), clock) for _ in range(32)]
    taking = [asyncio.create_task(whole(each)) for each in found]
    await asyncio.sleep(0)
    for each in found:
        each.data_received(HEAD + TINY * MANY + b"0\r\n\r\n")
    for _ in range(100):
        turn = asyncio.Event()
        rounds.soon(turn.set)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert turn.is_set()
    assert not all(each.done() for each in taking)
    for each in taking:
        each.cancel()
    await asyncio.wait(taking)
    for each in found:
        await each.close()


async def test_short_reads_of_tiny_chunks_wait_for_their_turns_too(clock, monkeypatch):
    """As many of them come in one turn of the loop as there are answers."""
    read = (TINY * LONG_READ)[: LONG_READ - LONG_READ % len(TINY)]
    async with Chunks(monkeypatch) as chunks:
        found = [answer_on(Wire(), clock) for _ in range(32)]
        taking = [asyncio.create_task(whole(each)) for each in found]
        for each in found:
            each.data_received(HEAD + read)
        await eventually(lambda: not rounds.busy() and not any(e.parser.pieces for e in found))
        chunks.most = 0
        for each in found:
            each.data_received(read)
        for each in found:
            each.data_received(b"0\r\n\r\n")
        bodies = [await soon(each) for each in taking]
    assert [len(body) for body in bodies] == [2 * len(read) // len(TINY)] * 32
    assert chunks.most <= FIRST_TURN


async def test_an_ordinary_answer_waits_for_nobody(clock):
    answer = answer_on(Wire(), clock)
    answer.data_received(HEAD + b"5\r\nhello\r\n" * 100 + b"0\r\n\r\n")
    assert await answer.head()
    assert await answer.read() == b"hello" * 100
    assert answer.ended
    assert not rounds.busy()


async def test_a_backlog_comes_whole_before_the_end_of_its_connection(clock, monkeypatch):
    async with Chunks(monkeypatch) as chunks:
        answer = answer_on(Wire(), clock)
        answer.data_received(HEAD + TINY * MANY)
        answer.connection_ended("Connection reset by peer")
        body = b""
        while len(body) < MANY:
            body += await soon(answer.read())
        with pytest.raises(ContainerBroke, match="the connection broke: Connection reset by peer"):
            await answer.read()
    assert body == b"x" * MANY
    assert chunks.most <= FIRST_TURN + DENSE_TURN


async def test_a_backlog_that_ends_with_its_connection_is_a_whole_answer(clock):
    answer = answer_on(Wire(), clock)
    answer.data_received(HEAD + TINY * MANY + b"0\r\n\r\n")
    answer.connection_ended()
    assert await soon(whole(answer)) == b"x" * MANY


async def test_an_exchange_that_is_over_waits_for_no_turn(clock, monkeypatch):
    async with Chunks(monkeypatch) as chunks:
        found = [answer_on(Wire(), clock) for _ in range(32)]
        taking = [asyncio.create_task(whole(each)) for each in found]
        for each in found:
            each.data_received(HEAD + TINY * MANY)
        await asyncio.sleep(0)
        for each, task in zip(found, taking, strict=True):
            task.cancel()
            await each.close()
            assert each._wire.aborted
        await asyncio.wait(taking)
        parsed = chunks.parsed
        await eventually(lambda: not rounds.busy())
    assert chunks.parsed == parsed


async def test_what_comes_behind_an_answer_is_read_no_further(clock):
    answer = answer_on(Wire(), clock)
    answer.data_received(OK)
    answer.data_received(OK)
    assert not answer._wire.reads
    assert await whole(answer) == b"ok"
    assert not answer._wire.reads
    await answer.close()
    assert answer._wire.aborted
    assert not answer._wire.good


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
