"""A request on an HTTP/2 stream whose carrier does nothing by itself (clauses 2.2, 2.3-6)."""

from __future__ import annotations

import asyncio

import pytest
from h2.errors import ErrorCodes

from partway.gateway.http.duplex import Parting
from partway.gateway.http.http2.exchange import Http2Exchange
from partway.gateway.http.http2.stream import Http2Stream
from partway.protocol.errors import ClientLeft
from partway.protocol.limits import WRITE_HIGH_WATER
from tests.gateway.http.http2.test_stream import FakeCarrier

HEADERS = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "gateway.example:8443"),
    (":path", "/a%20b?c=d?e"),
    ("cookie", "a=1"),
    ("cookie", "b=2"),
]


class Asked:
    """A request that has come as far as its headers, and its exchange."""

    def __init__(self, method="GET", **carrier):
        self.carrier = FakeCarrier(**carrier)
        self.stream = Http2Stream(self.carrier, self.carrier, 1)
        headers = [(":method", method), *HEADERS[1:]]
        self.exchange = Http2Exchange(self.stream, self.carrier, headers, "192.0.2.1")

    @property
    def head(self):
        """The response's, without date, server and id."""
        (head,) = self.carrier.heads
        return [head[0], *head[4:]]


@pytest.fixture
async def asked():
    """Made inside the loop."""
    return Asked


async def test_a_request(asked):
    exchange = asked().exchange
    assert (exchange.method, exchange.path, exchange.query) == ("GET", "/a%20b", "c=d?e")
    assert exchange.raw_headers == [HEADERS[2], HEADERS[4], HEADERS[5]]
    assert exchange.headers["Cookie"] == "a=1, b=2"
    assert exchange.version == "2"


@pytest.mark.clause("2.2-1")
async def test_a_whole_response(asked):
    made = asked()
    made.exchange.respond(403, b"no", {"X-Amzn-ErrorType": "No"})
    ((status, date, *rest),) = made.carrier.heads
    assert (status, date[0]) == ((":status", "403"), "date")
    assert rest == [
        ("server", "partway"),
        ("x-amzn-requestid", made.exchange.request_id),
        ("content-length", "2"),
        ("x-amzn-errortype", "No"),
    ]
    assert made.carrier.sent == [(b"no", True)]
    assert made.exchange.answered


@pytest.mark.parametrize(
    ("method", "status", "sized"), [("HEAD", 200, True), ("GET", 204, False), ("GET", 304, True)]
)
async def test_responses_without_a_body(asked, method, status, sized):
    whole, pieces = asked(method), asked(method)
    whole.exchange.respond(status, b"body")
    (head,) = whole.carrier.last_heads
    assert (("content-length", "4") in head) is sized
    assert whole.carrier.heads == whole.carrier.sent == []
    assert whole.carrier.over == [whole.stream]
    assert whole.exchange.answered
    await pieces.exchange.begin(status)
    await pieces.exchange.write(b"body")
    assert pieces.carrier.sent == []
    await pieces.exchange.end()
    assert pieces.carrier.sent == [(b"", True)]


async def test_a_whole_response_ends_in_trailers(asked):
    made = asked()
    made.exchange.respond_with_trailers(b"body", {"Content-Type": "a/b"}, {"Its-End": "good"})
    assert made.head == [(":status", "200"), ("content-type", "a/b")]
    assert made.carrier.sent == [(b"body", False)]
    assert made.carrier.last_heads == [[("its-end", "good")]]
    assert made.carrier.over == [made.stream]


async def test_the_first_piece_comes_behind_the_head(asked):
    made = asked()
    await made.exchange.begin(200, first=b"one")
    assert made.head == [(":status", "200")]
    assert made.carrier.sent == [(b"one", False)]


async def test_nobody_waits_for_room_behind_the_first_piece_but_who_writes_more(asked):
    made = asked(window=0, held_back=0)
    async with asyncio.timeout(5):
        await made.exchange.begin(200, first=bytes(WRITE_HIGH_WATER + 1))
    more = asyncio.create_task(made.exchange.write(b"more"))
    await asyncio.sleep(0)
    assert not more.done()
    made.carrier.free = 2 * WRITE_HIGH_WATER
    made.carrier.stream_ready(made.stream)
    async with asyncio.timeout(5):
        await more


@pytest.mark.parametrize("pieces", [[], [b"one", b"two"]])
async def test_a_response_in_pieces_ends_in_trailers(asked, pieces):
    made = asked()
    await made.exchange.begin(200)
    for piece in pieces:
        await made.exchange.write(piece)
    await made.exchange.end_with_trailers({"its-end": "good"})
    made.exchange.operation_over()
    assert made.carrier.sent == [(piece, False) for piece in pieces]
    assert made.carrier.last_heads == [[("its-end", "good")]]
    assert made.carrier.resets == []


async def test_trailers_wait_for_what_is_written_and_need_no_window(asked):
    made = asked(window=3, held_back=0)
    await made.exchange.begin(200)
    await made.exchange.write(b"four")
    await made.exchange.end_with_trailers({"its-end": "good"})
    assert made.carrier.sent == [(b"fou", False)]
    assert made.carrier.last_heads == []
    made.carrier.free = 1
    made.carrier.stream_ready(made.stream)
    assert made.carrier.sent == [(b"fou", False), (b"r", False)]
    assert made.carrier.last_heads == [[("its-end", "good")]]


async def test_no_trailers_are_sent_to_a_client_that_has_left(asked):
    made = asked()
    await made.exchange.begin(200)
    made.stream.lost(Parting.CANCELLED)
    await asyncio.sleep(0)
    with pytest.raises(ClientLeft):
        await made.exchange.end_with_trailers({"its-end": "good"})
    assert made.carrier.last_heads == []


async def test_a_response_in_pieces(asked):
    made = asked()
    await made.exchange.begin(200, {"Content-Type": "text/plain"})
    assert made.exchange.answered
    assert made.head == [(":status", "200"), ("content-type", "text/plain")]
    await made.exchange.write(b"one")
    await made.exchange.write(b"two")
    await made.exchange.end()
    made.exchange.operation_over()
    assert made.carrier.sent == [(b"one", False), (b"two", False), (b"", True)]
    ((_, unbegun),) = made.carrier.awaited
    assert not unbegun, "the client may have waited for the response's head"


@pytest.mark.clause("2.3-6")
async def test_the_last_piece_leaves_with_the_end(asked):
    made = asked()
    await made.exchange.begin(200)
    await made.exchange.write(b"one")
    await made.exchange.end(b"last", b"last")
    assert made.carrier.sent == [(b"one", False), (b"last", True)]


async def test_a_response_in_pieces_is_broken_off(asked):
    made = asked()
    await made.exchange.begin(200)
    made.exchange.operation_over()
    assert made.carrier.resets == [ErrorCodes.INTERNAL_ERROR]
    unanswered = asked()
    unanswered.exchange.abort()
    assert unanswered.carrier.resets == [ErrorCodes.CANCEL]


async def test_the_body_is_asked_for_before_it_is_read(asked):
    made = asked()
    made.exchange.headers["expect"] = "100-continue"
    made.stream.data_received(b"body", 4)
    made.stream.request_ended()
    assert await made.exchange.body(4) == b"body"
    assert made.carrier.heads == [[(":status", "100")]]
    assert not made.exchange.answered


async def test_a_client_that_leaves_cancels_what_waits_for_something_else(asked):
    made = asked()
    waiting = asyncio.create_task(asyncio.Event().wait())
    made.stream.task = waiting
    await made.exchange.begin(200)
    made.stream.lost(Parting.CANCELLED)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    for late in (made.exchange.write(b"x"), made.exchange.end(), made.exchange.begin(200)):
        with pytest.raises(ClientLeft):
            await late


async def test_a_client_that_leaves_behind_its_response_cancels_nothing(asked):
    made = asked()
    made.stream.data_received(b"body", 4)
    made.stream.request_ended()
    await made.exchange.body(4)
    made.stream.task = waiting = asyncio.create_task(asyncio.sleep(0.01))
    made.exchange.respond(200, b"whole")
    await waiting
