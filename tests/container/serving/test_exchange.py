"""A request and its answer: the bytes of a response, whole or piece by piece."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from partway.container.limits import HEAD_JOINED_UP_TO
from partway.container.serving.exchange import RuntimeExchange
from tests.container.serving.conftest import Serve
from tests.container.wire import until

GET = b"GET /a?b=c HTTP/1.1\r\nHost: c\r\nX-One: 1\r\nX-One: 2\r\n\r\n"


def head_of(lines: bytes) -> tuple[str, dict[str, str]]:
    status, *headers = lines.decode().strip().split("\r\n")
    named = dict(line.split(": ", 1) for line in headers)
    assert len(named) == len(headers)
    named.pop("Date")
    assert named.pop("Server") == "partway-container"
    return status, named


async def test_what_a_request_says(serve: Serve) -> None:
    said = []

    async def answer(exchange: RuntimeExchange) -> None:
        said.append((exchange.method, exchange.path, exchange.query, exchange.version))
        said.append((exchange.headers.getall("x-one"), exchange.length, exchange.closes))
        exchange.respond(200)

    async with serve(answer) as (_, client):
        client.send(GET)
        await client.head()
    assert said == [("GET", "/a", "b=c", "1.1"), (["1", "2"], 0, False)]


@pytest.mark.parametrize(
    ("method", "status", "length", "body"),
    [
        ("GET", 200, "4", b"body"),
        ("HEAD", 200, "4", b""),
        ("GET", 204, None, b""),
        ("GET", 304, "4", b""),
        ("GET", 205, "0", b""),
    ],
)
async def test_which_responses_have_a_length_and_which_a_body(
    serve: Serve, method: str, status: int, length: str | None, body: bytes
) -> None:
    async def answer(exchange: RuntimeExchange) -> None:
        if exchange.path == "/next":
            exchange.closes = True
            exchange.respond(200, b"next")
        else:
            exchange.respond(status, b"" if status == 205 else b"body")

    async with serve(answer) as (_, client):
        for path in ("/a", "/next"):
            client.send(f"{method if path == '/a' else 'GET'} {path} HTTP/1.1\r\n".encode())
            client.send(b"Host: c\r\n\r\n")
        line, headers = head_of(await client.head())
        assert line.split()[1] == str(status)
        assert headers.get("Content-Length") == length
        assert "Transfer-Encoding" not in headers
        rest = await client.eof()
    assert rest.startswith(body + b"HTTP/1.1 200 OK\r\n")
    assert rest.endswith(b"\r\nConnection: close\r\n\r\nnext")


async def in_pieces(exchange: RuntimeExchange, *pieces: bytes, length: int | None = None) -> None:
    exchange.begin(200, {}, length)
    assert not exchange.begun
    for piece in pieces:
        await exchange.send(piece)
        assert exchange.begun
    await exchange.end()


LONG = b"x" * (HEAD_JOINED_UP_TO + 1)


async def test_each_piece_is_a_chunk(serve: Serve) -> None:
    async with serve(lambda exchange: in_pieces(exchange, b"ab", b"", LONG, b"c")) as (_, client):
        for _ in range(2):
            client.send(GET)
            assert head_of(await client.head())[1] == {"Transfer-Encoding": "chunked"}
            sent = b"2\r\nab\r\n10001\r\n" + LONG + b"\r\n1\r\nc\r\n0\r\n\r\n"
            assert await client.reader.readexactly(len(sent)) == sent


async def test_pieces_of_what_has_a_length_are_no_chunks(serve: Serve) -> None:
    async def answer(exchange: RuntimeExchange) -> None:
        await in_pieces(exchange, LONG, b"c", length=len(LONG) + 1)

    async with serve(answer) as (_, client):
        for _ in range(2):
            client.send(GET)
            assert head_of(await client.head())[1] == {"Content-Length": str(len(LONG) + 1)}
            assert await client.reader.readexactly(len(LONG) + 1) == LONG + b"c"


async def test_over_http_1_0_pieces_end_with_the_connection(serve: Serve) -> None:
    async with serve(lambda exchange: in_pieces(exchange, b"ab", b"c")) as (_, client):
        client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert head_of(await client.head()) == ("HTTP/1.0 200 OK", {})
        assert await client.eof() == b"abc"


async def test_a_connection_of_http_1_0_is_kept_where_that_is_asked_for(serve: Serve) -> None:
    async def answer(exchange: RuntimeExchange) -> None:
        exchange.respond(200)

    async with serve(answer) as (_, client):
        for _ in range(2):
            client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert head_of(await client.head())[1]["Connection"] == "keep-alive"
        client.send(b"GET / HTTP/1.0\r\n\r\n")
        assert "Connection" not in head_of(await client.head())[1]
        assert await client.eof() == b""


async def test_a_body_is_taken_as_it_comes(serve: Serve) -> None:
    taken: list[bytes | None] = []

    async def answer(exchange: RuntimeExchange) -> None:
        assert exchange.taken_whole() is None
        taken.append(exchange.taken())
        taken.append(await exchange.read())
        taken.append(await exchange.read())
        taken.append(exchange.taken())
        exchange.respond(200)

    async with serve(answer) as (_, client):
        client.send(b"POST / HTTP/1.1\r\nHost: c\r\nContent-Length: 3\r\n\r\n")
        await until(lambda: taken)
        client.send(b"abc")
        await client.head()
    assert taken == [None, b"abc", b"", b""]


async def test_a_body_of_no_pieces_has_a_head_all_the_same(serve: Serve) -> None:
    async with serve(in_pieces) as (_, client):
        client.send(GET)
        assert head_of(await client.head())[1] == {"Transfer-Encoding": "chunked"}
        assert await client.reader.readexactly(5) == b"0\r\n\r\n"


@pytest.mark.parametrize("asked", [False, True])
async def test_a_body_that_is_held_back_is_not_waited_for(serve: Serve, *, asked: bool) -> None:
    """What its client sends next may be a request, and no body (RFC 9110 §10.1.1)."""

    async def answer(exchange: RuntimeExchange) -> None:
        if asked:
            exchange.ask_for_body()
        exchange.respond(200)

    async with serve(answer) as (_, client):
        client.send(
            b"POST / HTTP/1.1\r\nHost: c\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        )
        if asked:
            assert await client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
            assert "Connection" not in head_of(await client.head())[1]
            client.send(b"hi" + GET)
            await client.head()
        else:
            assert head_of(await client.head())[1]["Connection"] == "close"
            client.send(GET)
            assert await client.eof() == b""


@pytest.mark.parametrize(
    "write",
    [
        lambda exchange: exchange.respond(200, b"", {"X": "a\r\nY: b"}),
        lambda exchange: exchange.begin(200, {"X": "a\nb"}, None),
    ],
    ids=["whole", "pieces"],
)
async def test_a_header_of_two_lines_is_a_failure_that_is_answered(
    serve: Serve, write: Callable[[RuntimeExchange], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(exchange: RuntimeExchange) -> None:
        write(exchange)

    async with serve(answer) as (_, client):
        client.send(GET)
        status, headers = head_of(await client.head())
        assert (status, headers["Connection"]) == ("HTTP/1.1 500 Internal Server Error", "close")
        assert await client.eof() == b"the runtime has failed; its log says how\n"
    assert "a header of a response must be one line" in caplog.text
