"""Bodies of ``/invocations``: item by item, or whole."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.container.errors import BodyError, Busy
from partway.container.serving import body as body_module
from partway.container.serving.body import ChunkedRequest, HeldBodies, IncomingBody
from partway.container.serving.exchange import RuntimeExchange
from partway.protocol.errors import ClientLeft
from partway.protocol.http1.parser import RequestParser
from partway.protocol.http1.request import Http1Head, Http1Request
from partway.protocol.limits import HTTP1_HELD_BYTES, MIB, PART_OVERHEAD
from tests.container.serving.conftest import Serve
from tests.container.wire import until

CHUNKED = b"POST / HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n"


def post(body: bytes, **headers: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"POST / HTTP/1.1\r\nHost: c\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def reading(
    read: Callable[[IncomingBody], Awaitable[Any]], most: int = 1 << 30, patience: float = 20.0
) -> tuple[Callable[[RuntimeExchange], Awaitable[None]], list[Any]]:
    """A handler that reads its body so, and what has come of that."""
    found: list[Any] = []

    async def answer(exchange: RuntimeExchange) -> None:
        try:
            found.append(await read(IncomingBody(exchange, most, patience)))
        except BodyError as error:
            found.append((error.status, error.reason))
            exchange.closes = True
        exchange.respond(200)

    return answer, found


async def whole(body: IncomingBody) -> bytes:
    return await body.whole()


async def items(body: IncomingBody) -> list[bytes]:
    return [item async for item in body]


async def test_a_held_body_is_there_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module, "MAX_HELD_BODIES", 5 * MIB)
    piece = b"x" * MIB

    async def pieces(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield piece

    bodies = HeldBodies()
    for _ in range(2):
        tracemalloc.start()
        try:
            async with bodies.whole(pieces(4)) as body:
                assert len(body) == 4 * MIB
                assert tracemalloc.get_traced_memory()[0] < 5 * MIB
                with pytest.raises(Busy, match="exceed 5242880 bytes"):
                    async with bodies.whole(pieces(2)):
                        pass
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("size", [0, 1, 5000, 3 * HTTP1_HELD_BYTES, 3_000_000])
async def test_a_body_after_another_is_read_whole(serve: Serve, size: int) -> None:
    """Whether it comes with its head, or in a hundred reads; each with an id of its own."""
    answer, found = reading(whole)
    async with serve(answer) as (_, client):
        for number in range(4):
            client.send(post(b"x" * size, X_Amzn_SageMaker_Request_Id=str(number)))
            async with asyncio.timeout(20):
                await client.head()
    assert [len(body) for body in found] == [size] * 4


async def test_who_reads_a_body_whole_is_told_at_its_end(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    tell = Http1Request.tell
    monkeypatch.setattr(
        Http1Request, "tell", lambda self: (told.append(self.received), tell(self))[1]
    )
    answer, found = reading(whole)
    size = 20 * HTTP1_HELD_BYTES
    async with serve(answer) as (_, client):
        client.send(post(bytes(size))[:-1])
        await client.writer.drain()
        assert told == []
        client.send(b"\0")
        await client.head()
    assert (told, [len(body) for body in found]) == ([size], [size])


async def test_who_reads_item_by_item_holds_the_client_back(serve: Serve) -> None:
    go_on = asyncio.Event()

    async def slowly(body: IncomingBody) -> int:
        first = await anext(body)
        await go_on.wait()
        return len(first) + sum([len(item) async for item in body])

    def held() -> int:
        (connection,) = server._connections
        current = connection.reader.current
        return current.held if current is not None and connection.reader.paused else 0

    answer, found = reading(slowly)
    size = 32 * 1024 * 1024
    async with serve(answer) as (server, client):
        client.send(post(bytes(size)))
        try:
            await until(lambda: server.tasks and held() > HTTP1_HELD_BYTES)
            assert held() < HTTP1_HELD_BYTES + (1 << 20)  # and a read of the loop's
        finally:
            go_on.set()
        await client.head()
    assert found == [size]


async def test_who_reads_whole_what_was_held_back_has_the_rest_of_it(serve: Serve) -> None:
    async def late(body: IncomingBody) -> int:
        (connection,) = server._connections
        await until(lambda: connection.reader.paused or connection.reader.current.complete)
        return len(await body.whole())

    answer, found = reading(late)
    async with serve(answer) as (server, client):
        for _ in range(2):
            client.send(post(bytes(30 * HTTP1_HELD_BYTES)))
            async with asyncio.timeout(20):
                await client.head()
    assert found == [30 * HTTP1_HELD_BYTES] * 2


async def test_who_has_given_up_waiting_for_all_may_have_what_comes(serve: Serve) -> None:
    given_up, found = asyncio.Event(), []

    async def answer(exchange: RuntimeExchange) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await exchange.read_whole()
        given_up.set()
        found.append(await exchange.read())
        exchange.closes = True
        exchange.respond(200)

    async with serve(answer) as (_, client):
        client.send(post(b"abc")[:-3])
        await given_up.wait()
        client.send(b"ab")
        async with asyncio.timeout(20):
            await client.head()
    assert found == [b"ab"]


@pytest.mark.parametrize("read", [whole, items])
@pytest.mark.parametrize(
    ("sent", "limits", "refusal"),
    [
        (post(b"ab")[:-1], {"patience": 0.05}, (408, "the body did not come within 0.05 s")),
        (
            CHUNKED + b"1\r\na\r\nnonsense\r\n",
            {},
            (400, "the body is cut off, or its HTTP framing is invalid"),
        ),
        (
            CHUNKED + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
            {"most": 2},
            (413, "the body is larger than 2 bytes"),
        ),
    ],
    ids=["too slow", "broken", "too large"],
)
async def test_a_body_that_cannot_be_taken(
    serve: Serve,
    read: Callable[[IncomingBody], Awaitable[Any]],
    sent: bytes,
    limits: dict[str, Any],
    refusal: tuple[int, str],
) -> None:
    answer, found = reading(read, **limits)
    async with serve(answer) as (_, client):
        client.send(sent)
        await client.head()
    assert found == [refusal]


async def test_a_body_that_is_stated_to_be_too_large_is_not_waited_for(serve: Serve) -> None:
    answer, found = reading(whole, most=2)
    async with serve(answer) as (_, client):
        client.send(post(b"abc")[:-3])
        await client.head()
    assert found == [(413, "the body is larger than 2 bytes")]


async def test_the_rest_of_a_body_that_was_begun_is_read_whole(serve: Serve) -> None:
    async def mixed(body: IncomingBody) -> tuple[bytes, bytes, bytes]:
        return await anext(body), await body.whole(), await body.whole()

    answer, found = reading(mixed)
    async with serve(answer) as (_, client):
        client.send(CHUNKED + b"1\r\na\r\n2\r\nbc\r\n1\r\nd\r\n0\r\n\r\n")
        await client.head()
        client.send(post(b"abcd"))
        await client.head()
    assert found == [(b"a", b"bcd", b""), (b"abcd", b"", b"")]


@pytest.mark.parametrize("first", [whole, items])
@pytest.mark.parametrize("second", [whole, items])
async def test_a_body_has_one_reader_at_a_time(
    serve: Serve,
    first: Callable[[IncomingBody], Awaitable[Any]],
    second: Callable[[IncomingBody], Awaitable[Any]],
) -> None:
    found = []

    async def answer(exchange: RuntimeExchange) -> None:
        body = IncomingBody(exchange, 100, 20.0)
        reading = asyncio.create_task(first(body))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="another task is reading the request's body"):
            await second(body)
        exchange.respond(200)
        found.append(await reading)

    async with serve(answer) as (_, client):
        client.send(post(b"ab")[:-1])
        await client.head()
        client.send(b"b")
        await until(lambda: found)
    assert found in ([b"ab"], [[b"a", b"b"]])


@pytest.mark.parametrize("read", [whole, items])
@pytest.mark.parametrize("waits", [False, True])
async def test_a_body_ends_with_the_answer(
    serve: Serve, read: Callable[[IncomingBody], Awaitable[Any]], *, waits: bool
) -> None:
    """Who has not read it by then keeps nobody from the connection's next request."""
    readers: list[asyncio.Task[Any]] = []

    async def answer(exchange: RuntimeExchange) -> None:
        body = IncomingBody(exchange, 100, 20.0)
        readers.append(asyncio.create_task(read(body)))
        if waits:
            await asyncio.sleep(0)
        exchange.respond(200)
        body.close()

    async with serve(answer) as (_, client):
        for _ in range(2):
            client.send(post(b"ab")[:-1])
            await client.head()
            with pytest.raises(RuntimeError, match="the request has been answered"):
                async with asyncio.timeout(20):
                    await readers.pop()
            client.send(b"b")


@pytest.mark.parametrize("read", [whole, items])
async def test_whoever_waits_hears_that_the_client_has_left(
    serve: Serve, read: Callable[[IncomingBody], Awaitable[Any]]
) -> None:
    """In a task of its own too, which nobody cancels."""
    waiting: list[asyncio.Task[Any]] = []

    async def answer(exchange: RuntimeExchange) -> None:
        waiting.append(asyncio.create_task(read(IncomingBody(exchange, 100, 20.0))))
        await asyncio.Event().wait()

    async with serve(answer) as (_, client):
        client.send(post(b"ab")[:-1])
        await until(lambda: waiting)
    with pytest.raises(ClientLeft):
        await waiting[0]


# --- Chunks, kept apart --------------------------------------------------------------------------

Make = Callable[[int | None], ChunkedRequest]


@pytest.fixture
def made() -> Make:
    def make(length: int | None) -> ChunkedRequest:
        return ChunkedRequest(Http1Head("POST", "/", (), None, "1.1", length, 0, keeps=True))

    return make


def taken(request: ChunkedRequest) -> list[bytes]:
    found = []
    while request.held:
        found.append(request.take())
    return found


def test_chunks_are_taken_one_by_one(made: Make) -> None:
    request = made(None)
    for chunk in (b"a", b"bc", b"d" * 9000):
        request.add(chunk)
    assert request.received == 9003
    assert taken(request) == [b"a", b"bc", b"d" * 9000]
    assert (request.held, request.take()) == (0, b"")


def test_a_tiny_chunk_weighs_what_it_takes(made: Make) -> None:
    request = made(None)
    for _ in range(1000):
        request.add(b"x")
    assert request.held == 1000 * (1 + PART_OVERHEAD)
    request.take()
    assert request.held == 999 * (1 + PART_OVERHEAD)


def test_what_has_a_length_is_one_piece(made: Make) -> None:
    request = made(7)
    for piece in (b"a", b"bc", b"defg"):
        request.add(piece)
    assert (request.held, taken(request)) == (7, [b"abcdefg"])


@pytest.mark.parametrize("length", [None, 4])
def test_what_nobody_wants_is_let_go(made: Make, length: int | None) -> None:
    request = made(length)
    request.add(b"a")
    request.add(b"b")
    request.drop()
    request.add(b"cd")
    assert (request.received, request.held, request.take()) == (4, 0, b"")


@pytest.mark.clause("1.1-5")
@given(st.lists(st.binary(min_size=1, max_size=300), max_size=20), st.integers(1, 500))
def test_no_item_is_of_two_chunks_however_they_come(chunks: list[bytes], at: int) -> None:
    parser = RequestParser(new_request=ChunkedRequest)
    sent = b"POST / HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n"
    sent += b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    for start in range(0, len(sent), at):
        parser.feed(sent[start : start + at])
    (request,) = parser.requests
    assert isinstance(request, ChunkedRequest)
    items = taken(request)
    for chunk in chunks:
        whole = b""
        while len(whole) < len(chunk):
            whole += items.pop(0)
        assert whole == chunk
    assert (items, request.complete) == ([], True)
