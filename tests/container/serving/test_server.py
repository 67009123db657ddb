"""The connections of a runtime: in order, within their times, and to their end."""

from __future__ import annotations

import asyncio
import tracemalloc
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest

from partway.container.serving.exchange import RuntimeExchange
from partway.container.serving.server import ExchangeServer
from partway.protocol.connections.tcp import has_ended
from partway.protocol.limits import HTTP1_HELD_BYTES, KIB
from tests.container.serving.conftest import Serve
from tests.container.wire import raw_client, until

GET = b"GET / HTTP/1.1\r\nHost: c\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: c\r\nContent-Length: 1000000\r\n\r\n"


async def ok(exchange: RuntimeExchange) -> None:
    exchange.respond(200, exchange.path.encode())


async def test_requests_that_come_at_once_are_answered_in_their_order(serve: Serve) -> None:
    async with serve(ok) as (_, client):
        client.send(b"".join(GET.replace(b"/ ", b"/%d " % number) for number in range(50)))
        for number in range(50):
            await client.head()
            path = b"/%d" % number
            assert await client.reader.readexactly(len(path)) == path


async def test_a_request_behind_the_last_is_nobodys(serve: Serve) -> None:
    async with serve(ok) as (_, client):
        client.send(GET.replace(b"Host: c", b"Host: c\r\nConnection: close") + GET)
        assert (await client.eof()).count(b"HTTP/1.1 200 OK") == 1


async def test_a_body_that_nobody_reads_is_passed_over(serve: Serve) -> None:
    async with serve(ok) as (_, client):
        client.send(
            b"POST / HTTP/1.1\r\nHost: c\r\nContent-Length: 900000\r\n\r\n" + bytes(900_000)
        )
        client.send(GET)
        for _ in range(2):
            await client.head()
            assert await client.reader.readexactly(1) == b"/"


@pytest.mark.parametrize("size", [2 * HTTP1_HELD_BYTES, 400_000])
async def test_a_request_behind_a_long_body_that_nobody_reads_is_answered(
    serve: Serve, size: int
) -> None:
    """While that body waits, its client is held back."""

    async def late(exchange: RuntimeExchange) -> None:
        if exchange.method == "POST":
            (connection,) = server._connections
            await until(lambda: connection.reader.paused)
        exchange.respond(200, exchange.path.encode())

    async with serve(late) as (server, client):
        for _ in range(2):
            client.send(b"POST / HTTP/1.1\r\nHost: c\r\nContent-Length: %d\r\n\r\n" % size)
            client.send(bytes(size) + GET * 2)
            async with asyncio.timeout(20):
                for _ in range(3):
                    await client.head()
                    assert await client.reader.readexactly(1) == b"/"


async def test_requests_that_come_at_once_let_others_have_their_turn(serve: Serve) -> None:
    """A turn's bytes may be a hundred of them."""
    order: list[str] = []

    async def note(exchange: RuntimeExchange) -> None:
        order.append(exchange.path)
        exchange.respond(200)

    async with serve(note) as (_, client), raw_client(client.port) as other:
        for each, path in ((client, b"/one "), (other, b"/two ")):
            each.send(GET.replace(b"/ ", path) * 100)
        for each in (client, other):
            for _ in range(100):
                await each.head()
    assert order[:100].count("/one") not in (0, 100)


async def test_behind_a_broken_body_an_answer_says_that_the_connection_ends(serve: Serve) -> None:
    async def late(exchange: RuntimeExchange) -> None:
        (connection,) = server._connections
        await until(lambda: connection.reader.drains)
        exchange.respond(200)

    async with serve(late) as (server, client):
        client.send(b"POST / HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n")
        assert b"\r\nConnection: close\r\n" in await client.eof()


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_nobody_read_is_not_kept(serve: Serve, *, chunked: bool) -> None:
    async with serve(ok) as (server, client):
        framing, body = b"Content-Length: 3000", bytes(3000)
        if chunked:
            framing, body = b"Transfer-Encoding: chunked", b"3\r\nabc\r\n" * 300 + b"0\r\n\r\n"
        client.send(b"POST / HTTP/1.1\r\nHost: c\r\n" + framing + b"\r\n\r\n" + body)
        await client.head()
        (connection,) = server._connections
        await until(lambda: connection.reader.idle)
        assert connection.reader._parser.last.held == 0


async def test_a_body_that_does_not_end_and_nobody_reads_is_waited_for_so_long(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many connections none is left: by uvloop's clock a timer may come early, at some times."""
    monkeypatch.setattr("partway.protocol.limits.LINGER_TIMEOUT", 0.3)
    async with serve(ok) as (server, client), AsyncExitStack() as others:
        port = client.writer.get_extra_info("peername")[1]
        clients = [await others.enter_async_context(raw_client(port)) for _ in range(100)]
        for each in (client, *clients):
            each.send(b"POST / HTTP/1.1\r\nHost: c\r\nContent-Length: 9\r\n\r\n1")
            await asyncio.sleep(0.001)
        async with asyncio.timeout(20):
            await server._none_left.wait()


async def test_what_is_no_request_is_answered_behind_those_that_are(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with serve(ok) as (_, client):
        client.send(GET + b"secret nonsense\r\n\r\n")
        answers = await client.eof()
    assert answers.count(b"HTTP/1.1 200 OK") == 1
    assert answers.endswith(b"\r\nConnection: close\r\n\r\nthe request is not valid HTTP/1.1\n")
    assert "bad request peer=127.0.0.1 reason=" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("error", [LookupError("ours"), ConnectionResetError("a database's")])
@pytest.mark.parametrize("begun", [False, True])
async def test_a_failure_ends_its_connection_alone(
    serve: Serve, caplog: pytest.LogCaptureFixture, error: Exception, *, begun: bool
) -> None:
    async def fail(exchange: RuntimeExchange) -> None:
        if exchange.path == "/well":
            exchange.respond(200)
            return
        if begun:
            exchange.begin(200, {}, None)
            await exchange.send(b"begun")
        raise error

    async with serve(fail) as (_, client), raw_client(client.port) as other:
        client.send(GET)
        rest = await client.rest()
        other.send(GET.replace(b"/ ", b"/well "))
        assert (await other.head()).startswith(b"HTTP/1.1 200 OK\r\n")
    assert rest.startswith(b"HTTP/1.1 200 OK" if begun else b"HTTP/1.1 500 ")
    assert not begun or rest.endswith(b"\r\n5\r\nbegun\r\n")
    assert "the answer to a request has failed" in caplog.text


async def test_a_client_that_takes_nothing_is_given_up(serve: Serve) -> None:
    ended = asyncio.Event()

    async def flood(exchange: RuntimeExchange) -> None:
        exchange.begin(200, {}, None)
        try:
            while True:
                await exchange.send(bytes(64 * KIB))
        finally:
            ended.set()

    async with serve(flood, taken_within=0.05) as (_, client):
        client.writer.transport.pause_reading()
        client.send(GET)
        async with asyncio.timeout(20):
            await ended.wait()
        client.writer.transport.resume_reading()
        assert not (await client.rest()).endswith(b"0\r\n\r\n")


async def test_a_client_that_takes_nothing_of_the_last_answer_is_given_up(serve: Serve) -> None:
    """What is unsent may be too little for the answer to have waited for room."""
    answer, answered = bytes(40 * KIB), asyncio.Event()

    async def once(exchange: RuntimeExchange) -> None:
        transport = exchange.connection.transport
        assert transport is not None
        while not transport.get_write_buffer_size():  # what the systems hold is not in it
            transport.write(answer)
        assert not exchange.connection.writing_paused
        exchange.closes = True
        answered.set()

    async with serve(once, taken_within=0.05) as (server, client):
        client.writer.transport.pause_reading()
        client.send(GET)
        async with asyncio.timeout(20):
            await answered.wait()
            await server._none_left.wait()


async def test_a_client_that_leaves_cancels_what_is_done_for_it_whatever_that_waits_for(
    serve: Serve,
) -> None:
    """And so where another task waits for the rest of the body."""
    begun, ended = asyncio.Event(), asyncio.Event()
    reading: list[asyncio.Task[bytes]] = []

    async def work(exchange: RuntimeExchange) -> None:
        reading.append(asyncio.create_task(exchange.read()))
        await asyncio.sleep(0)
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with serve(work) as (_, client):
        client.send(b"POST / HTTP/1.1\r\nHost: c\r\nContent-Length: 5\r\n\r\n")
        await begun.wait()
        await client.close()
        async with asyncio.timeout(20):
            await ended.wait()
    with suppress(ConnectionError):
        await reading[0]


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(GET + GET, id="requests"),
        pytest.param(POST + bytes(HTTP1_HELD_BYTES + 1), id="a body that nobody reads"),
    ],
)
@pytest.mark.parametrize("resets", [False, True])
async def test_a_client_that_leaves_is_noticed_where_nothing_is_read_of_what_it_sends(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, sent: bytes, *, resets: bool
) -> None:
    monkeypatch.setattr("partway.protocol.limits.LEAVING_INTERVAL", 0.02)
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work(exchange: RuntimeExchange) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with serve(work) as (server, client):
        client.send(sent)
        await begun.wait()
        client.send(b"and more")
        (connection,) = server._connections
        await until(lambda: connection.reader.paused and connection.reader._turn is None)
        if resets:
            client.writer.transport.abort()
        else:
            client.writer.close()
        async with asyncio.timeout(20):
            await ended.wait()


async def test_a_client_that_stays_is_waited_for_where_nothing_is_read_of_what_it_sends(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[bool] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    def look(transport: asyncio.Transport) -> bool:
        looks.append(has_ended(transport))
        return looks[-1]

    monkeypatch.setattr("partway.protocol.limits.LEAVING_INTERVAL", 0.02)
    monkeypatch.setattr("partway.protocol.connections.http1_reading.has_ended", look)

    async def work(exchange: RuntimeExchange) -> None:
        begun.set()
        await go_on.wait()
        exchange.respond(200)

    async with serve(work) as (_, client):
        client.send(GET + GET)
        await begun.wait()
        client.send(GET)
        await until(lambda: len(looks) == 3)
        go_on.set()
        for _ in range(3):
            assert (await client.head()).startswith(b"HTTP/1.1 200 OK")
    assert not any(looks)


async def test_what_is_cancelled_ends_its_connection(serve: Serve) -> None:
    begun = asyncio.Event()

    async def never(exchange: RuntimeExchange) -> None:
        exchange.begin(200, {}, None)
        await exchange.send(b"begun")
        begun.set()
        await asyncio.Event().wait()

    async with serve(never) as (server, client):
        client.send(GET)
        await begun.wait()
        for task in server.tasks:
            task.cancel()
        async with asyncio.timeout(20):
            assert (await client.rest()).endswith(b"\r\n5\r\nbegun\r\n")


async def test_a_server_that_ends_waits_for_answers_and_not_for_who_is_silent(
    serve: Serve,
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(exchange: RuntimeExchange) -> None:
        begun.set()
        await go_on.wait()
        exchange.respond(200)

    async with serve(slow) as (server, client):
        client.send(GET + GET)
        await begun.wait()
        ending = asyncio.create_task(server.shutdown(20))
        await until(lambda: server.ending)
        go_on.set()
        assert await ending == 0
        assert (await client.eof()).count(b"HTTP/1.1 200 OK") == 1
        assert server.open_connections == 0


async def test_who_does_not_end_is_broken_off_and_left_behind(serve: Serve) -> None:
    begun, over = asyncio.Event(), asyncio.Event()

    async def stubborn(exchange: RuntimeExchange) -> None:
        begun.set()
        while not over.is_set():
            with suppress(asyncio.CancelledError):
                await over.wait()

    async with serve(stubborn) as (server, client):
        client.send(GET)
        await begun.wait()
        assert await server.shutdown(0.05) == 1
        assert await client.rest() == b""
        over.set()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /%b HTTP/1.1\r\nHost: c\r\n" % (b"x" * 8189), 200),
        (b"GET /%b HTTP/1.1\r\nHost: c\r\n" % (b"x" * 8190), 414),
        (b"GET / HTTP/1.1\r\nHost: c\r\nX: %b\r\n" % (b"x" * 8189), 200),
        (b"GET / HTTP/1.1\r\nHost: c\r\nX: %b\r\n" % (b"x" * 8190), 431),
        (b"GET / HTTP/1.1\r\nHost: c\r\n" + b"X: y\r\n" * 63, 200),
        (b"GET / HTTP/1.1\r\nHost: c\r\n" + b"X: y\r\n" * 64, 431),
        # What RFC 9113 §6.5.2 counts: 16,384 bytes, and one more.
        (b"GET / HTTP/1.1\r\nHost: c\r\nX: %b\r\nY: %b\r\n" % (b"x" * 8180, b"y" * 8097), 200),
        (b"GET / HTTP/1.1\r\nHost: c\r\nX: %b\r\nY: %b\r\n" % (b"x" * 8180, b"y" * 8098), 431),
    ],
    ids=lambda each: "" if isinstance(each, bytes) else str(each),
)
async def test_how_large_a_head_may_be(serve: Serve, head: bytes, status: int) -> None:
    async with serve(ok) as (_, client):
        client.send(head + b"\r\n")
        assert int((await client.head()).split()[1]) == status


class Silent(asyncio.Transport):
    """A transport on which nothing comes back."""

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        pass

    abort = close


HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n"
LAST_CHUNK = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"


@pytest.mark.parametrize("before", [HEAD, LAST_CHUNK], ids=["head", "trailers"])
@pytest.mark.parametrize(
    "begun",
    [
        (b"X: " + b"x" * 8000 + b"\r\n") * 50,
        b"X: \xf0\x9f\x98\x80\r\n" * 50_000,
        b"x: y\r\n" * 60_000,
        b"X: " + b"x" * 400_000,
    ],
    ids=["long", "wide", "many", "one"],
)
async def test_what_a_head_holds_that_does_not_end_is_bounded(before: bytes, begun: bytes) -> None:
    server = ExchangeServer(ok)
    connections: list[Any] = [server.protocol() for _ in range(20)]

    def answered() -> bool:
        return all(
            each.reader.current is not None and each.reader.current.dropped for each in connections
        )

    for each in connections:
        each.connection_made(Silent())
    pieces = [begun[start : start + 1000] for start in range(0, len(begun), 1000)]
    tracemalloc.start()
    try:
        held = [0]
        at_first = tracemalloc.get_traced_memory()[0]
        for each in connections:
            each.data_received(before)
        await until(lambda: before is HEAD or answered())
        for piece in pieces:
            for each in connections:
                each.data_received(piece)
            held.append(tracemalloc.get_traced_memory()[0] - at_first)
    finally:
        tracemalloc.stop()
    assert max(held) / len(connections) < 64 * KIB
    assert all(each.reader.drains for each in connections)
    for each in connections:
        each.connection_lost(None)
    await server.shutdown(1)


async def test_a_body_that_comes_with_its_head_is_read_at_once() -> None:
    server, paused = ExchangeServer(ok), []

    class Pausing(Silent):
        def pause_reading(self) -> None:
            paused.append(True)

    connection: Any = server.protocol()
    connection.connection_made(Pausing())
    for number, size in enumerate((1, 5_000, 100_000)):
        head = f"POST /a HTTP/1.1\r\nHost: c\r\nX-Amzn-SageMaker-Request-Id: {number}\r\n"
        data = f"{head}Content-Length: {size}\r\n\r\n".encode() + bytes(size)
        connection.data_received(data)
        assert paused == []
        await until(lambda: connection.reader.idle and not connection.reader.requests)
    connection.connection_lost(None)
    await server.shutdown(1)
