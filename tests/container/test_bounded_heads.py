"""What a head may hold before it is whole, by both of aiohttp's parsers."""

from __future__ import annotations

import asyncio
import tracemalloc
from types import SimpleNamespace

import pytest
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import HttpRequestParserPy
from aiohttp.web_protocol import HttpRequestParser
from hypothesis import given, settings
from hypothesis import strategies as st

from partway.container.bounded_heads import MAX_HELD, BoundedParser, BoundedServer, EndlessHead
from partway.protocol.limits import KIB, MAX_HEAD_BYTES, MAX_HEADERS
from tests.wire.peers import soon

START = b"POST /invocations HTTP/1.1\r\nHost: a\r\n"
CHUNKED = START + b"Transfer-Encoding: chunked\r\n\r\n"
WHOLE = [
    START + b"Content-Length: 5\r\n\r\nhello",
    CHUNKED + b"3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\ntrailer: x\r\n\r\n",
    b"GET /ping HTTP/1.1\r\nHost: \xc3\xb6\r\n\r\n",
]

#: Aiohttp's, in C and in Python: one of them is there whatever a system has.
PARSERS = pytest.mark.parametrize("kind", [HttpRequestParser, HttpRequestParserPy])


class Connection(SimpleNamespace):
    """What a parser's body asks of its connection."""

    _reading_paused = False

    def pause_reading(self, **_: object) -> None: ...
    def resume_reading(self, **_: object) -> None: ...


@pytest.fixture
def parser(kind):
    """Makes bounded parsers, as a server makes them."""
    loop = asyncio.new_event_loop()

    def make() -> BoundedParser:
        return BoundedParser(
            kind(
                Connection(),
                loop,
                2**16,
                max_line_size=8190,
                max_field_size=8190,
                max_headers=MAX_HEADERS + 2,
                payload_exception=web.RequestPayloadError,
                auto_decompress=False,
            )
        )

    yield make
    loop.close()


def requests(parser: BoundedParser, *pieces: bytes) -> list[tuple[str, bytes]]:
    """Path and body of each request."""
    found = []
    for piece in pieces:
        messages, _, _ = parser.feed_data(piece)
        found += messages
    return [(message.path, b"".join(getattr(body, "_buffer", ()))) for message, body in found]


@PARSERS
def test_whole_requests_are_parsed_wherever_they_are_cut(parser):
    sent = b"".join(WHOLE)
    expected = [("/invocations", b"hello"), ("/invocations", b"abcde"), ("/ping", b"")]
    for at in range(len(sent)):
        assert requests(parser(), sent[:at], sent[at:]) == expected
    assert requests(parser(), *(bytes([byte]) for byte in sent)) == expected


@PARSERS
@settings(max_examples=20, deadline=None)
@given(size=st.integers(1, 100 * KIB), chunk=st.integers(1, 70_000), at=st.integers(9, 50 * KIB))
def test_a_body_may_be_of_any_size_and_cut_anywhere(kind, size, chunk, at):
    loop = asyncio.new_event_loop()
    bounded = BoundedParser(kind(Connection(), loop, 2**16, auto_decompress=False))
    body = (b"\xff\n\r\x00" * (size // 4 + 1))[:size]
    chunks = [body[start : start + chunk] for start in range(0, size, chunk)][:2000]
    sent = CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in chunks)
    sent += b"0\r\n\r\n" + WHOLE[0]
    pieces = [sent[start : start + at] for start in range(0, len(sent), at)]
    assert requests(bounded, *pieces) == [
        ("/invocations", b"".join(chunks)),
        ("/invocations", b"hello"),
    ]
    loop.close()


@PARSERS
@settings(max_examples=20, deadline=None)
@given(size=st.integers(1, 100 * KIB), at=st.integers(9, 128 * KIB))
def test_so_may_a_body_whose_length_is_said(kind, size, at):
    loop = asyncio.new_event_loop()
    bounded = BoundedParser(kind(Connection(), loop, 2**16, auto_decompress=False))
    body = (b"\xff\n\r\x00" * (size // 4 + 1))[:size]
    sent = START + b"Content-Length: %d\r\n\r\n%b" % (size, body) + WHOLE[0] + WHOLE[2]
    pieces = [sent[start : start + at] for start in range(0, len(sent), at)]
    assert requests(bounded, *pieces) == [
        ("/invocations", body),
        ("/invocations", b"hello"),
        ("/ping", b""),
    ]
    loop.close()


class Feeds:
    """A parser, and how many bytes it was given at a time."""

    def __init__(self, parser: object) -> None:
        self._parser = parser
        self.sizes: list[int] = []

    def feed_data(self, data: bytes) -> object:
        self.sizes.append(len(data))
        return self._parser.feed_data(data)


@PARSERS
def test_what_is_known_to_be_a_body_is_not_cut(kind, parser):
    """Each cut costs a reader of the body a step."""
    bounded = parser()
    feeds = bounded._parser = Feeds(bounded._parser)
    head = START + b"Content-Length: %d\r\n\r\n" % (300 * KIB)
    sent = head + b"\xff" * (300 * KIB) + WHOLE[2]
    assert len(requests(bounded, sent[: 200 * KIB], sent[200 * KIB :])) == 2
    assert feeds.sizes == [
        *(4 * KIB, 196 * KIB),
        *(100 * KIB + len(head), len(WHOLE[2])),
    ]


@PARSERS
@pytest.mark.parametrize("headers", [2, 3, 20, MAX_HEADERS - 2])
def test_the_largest_head_that_is_answered_passes(parser, headers):
    """As RFC 9113 §6.5.2 counts it: each header costs 32 bytes more than it has."""
    room = MAX_HEAD_BYTES - len(b"POST/invocationshosta") - 32
    size = min(room // headers - 32 - 4, 8000)
    lines = b"".join(b"x-%02d: %b\r\n" % (number, b"v" * size) for number in range(headers))
    assert requests(parser(), START + lines + b"\r\n") == [("/invocations", b"")]


#: Lines of heads that never end, one after another.
ENDLESS = {
    "long lines": b"x: " + b"v" * 8000 + b"\r\n",
    "lines of 400 bytes": b"x: " + b"v" * 400 + b"\r\n",
    "short lines": b"x:\r\n",
    "two bytes a character": b"x: " + b"\xc3\xb6" * 1900 + b"\r\n",
    "one character of four bytes": b"x: \xf0\x9f\x98\x80" + b"v" * 3800 + b"\r\n",
    "no UTF-8": b"x: " + b"\xff" * 3800 + b"\r\n",
    "long names": b"x" * 4000 + b": v\r\n",
}
BEFORE = {
    "a head": START,
    "trailers": CHUNKED + b"5\r\nhello\r\n0\r\n",
    "the head behind a request": WHOLE[1] + START,
}


@PARSERS
@pytest.mark.parametrize("line", ENDLESS.values(), ids=ENDLESS)
@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
def test_an_endless_head_holds_less_than_64_kib(parser, line, before):
    bounded = parser()
    bounded.feed_data(before)
    sent = line * (100 * KIB // len(line))
    tracemalloc.start()
    begun, most = tracemalloc.get_traced_memory()[0], 0
    refused = False
    for at in range(0, len(sent), 500):
        try:
            bounded.feed_data(sent[at : at + 500])
        except HttpProcessingError:  # it holds too much, or has too many lines
            refused = True
            break
        most = max(most, tracemalloc.get_traced_memory()[0] - begun)
        assert bounded.held <= MAX_HELD
    tracemalloc.stop()
    assert refused
    assert most < 64 * KIB


@PARSERS
def test_what_comes_behind_is_dropped(parser):
    bounded = parser()
    with pytest.raises(EndlessHead):
        bounded.feed_data(START + ENDLESS["long lines"] * 20)
    assert bounded.feed_data(b"\r\n" + WHOLE[0]) == ((), False, b"")


@PARSERS
def test_who_reads_a_body_hears_of_endless_trailers(parser):
    bounded = parser()
    ((_, body),), _, _ = bounded.feed_data(CHUNKED + b"0\r\n")
    with pytest.raises(EndlessHead):
        bounded.feed_data(ENDLESS["lines of 400 bytes"] * 50)
    assert isinstance(body.exception(), web.RequestPayloadError)


@pytest.mark.parametrize("line", [ENDLESS["long lines"], ENDLESS["lines of 400 bytes"]])
async def test_a_server_answers_a_head_that_is_not_whole(line, anyio_backend):
    async def handle(request: web.BaseRequest) -> web.Response:
        return web.Response(text=request.path)

    server = BoundedServer(handle)
    listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(START + line * (60 * KIB // len(line)))
    head = await soon(reader.readuntil(b"\r\n"))
    assert head.split()[1] == b"400"
    writer.close()
    listening.close()
    await server.shutdown(1)
