"""A connection of HTTP/1.1: its turns, and what waits for them when it ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from partway.gateway.limits import HTTP1_BYTES_PER_TURN, RESPONSE_TAKEN_TIMEOUT
from partway.gateway.serving.crowd import uncounted
from partway.gateway.serving.http1 import Http1Server
from partway.gateway.serving.http1_parser import RequestParser
from partway.gateway.serving.strangers import Account, Strangers
from tests.gateway.streams.fakes import FakeClock

HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


class Transport(asyncio.Transport):
    """A transport that only notes what becomes of it."""

    def __init__(self, **extra):
        super().__init__(extra)
        self.closed = False
        self.reading = True

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True

    abort = close


@pytest.fixture
async def reading(monkeypatch):
    """A connection that reads forty thousand chunks; the pieces that its parser gets of them."""
    pieces = []
    feed = RequestParser.feed
    monkeypatch.setattr(
        RequestParser, "feed", lambda self, data: (pieces.append(len(data)), feed(self, data))[1]
    )

    async def never(exchange):
        await asyncio.Event().wait()

    server = Http1Server(never)

    def start(**extra):
        protocol, transport = server.protocol(), Transport(**extra)
        protocol.connection_made(transport)
        head = b"POST /nothing HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        protocol.data_received(head + b"1\r\nx\r\n" * 40_000)
        assert pieces == [HTTP1_BYTES_PER_TURN]
        return protocol, transport

    yield start, pieces
    await server.shutdown(0)


async def test_a_stranger_has_its_turn_in_a_round(reading):
    """However short what it asks: hundreds may ask in the same moment."""
    _, pieces = reading

    async def answer(exchange):
        exchange.respond(200)

    server = Http1Server(answer)
    protocol = server.protocol(uncounted(Account()))
    protocol.connection_made(Transport())
    protocol.data_received(HEALTHZ)
    assert pieces == []
    await asyncio.sleep(0)
    assert pieces == [len(HEALTHZ)]
    protocol.connection_lost(None)
    await server.shutdown(0)


async def test_a_read_that_comes_while_one_waits_waits_with_it():
    """It was under way when reading was paused."""
    clock = FakeClock()
    strangers = Strangers(clock)
    stranger = strangers.account("192.0.2.1")
    stranger.draw(10.0)
    server = Http1Server(lambda exchange: asyncio.Event().wait())
    protocol, transport = server.protocol(uncounted(stranger)), Transport()
    protocol.connection_made(transport)
    protocol.data_received(HEALTHZ)
    await asyncio.sleep(0)
    assert not transport.reading
    protocol.data_received(b"x" * 1000)
    assert not transport.reading
    assert protocol._unparsed == HEALTHZ + b"x" * 1000
    protocol.connection_lost(None)
    await server.shutdown(0)


async def test_what_waits_for_its_turn_when_the_client_resets_is_dropped(reading):
    start, pieces = reading
    protocol, _ = start()
    protocol.connection_lost(ConnectionResetError())
    for _ in range(5):
        await asyncio.sleep(0)
    assert pieces == [HTTP1_BYTES_PER_TURN]


async def test_what_waits_for_its_turn_when_the_client_has_ended_has_its_turns(reading):
    """Behind them the connection is closed."""
    start, pieces = reading
    protocol, transport = start()
    assert protocol.eof_received()
    async with asyncio.timeout(10):
        while not transport.closed:  # noqa: ASYNC110 (each turn of the loop is looked at)
            await asyncio.sleep(0)
    assert max(pieces) == HTTP1_BYTES_PER_TURN
    assert sum(pieces) > 240_000
    protocol.connection_lost(None)


async def test_a_client_that_has_ended_tls_is_not_kept_for_what_waits(reading):
    """TLS closes both sides."""
    start, pieces = reading
    protocol, _ = start(sslcontext=object())
    assert not protocol.eof_received()
    protocol.connection_lost(None)
    assert pieces == [HTTP1_BYTES_PER_TURN]


async def test_a_client_that_takes_a_long_answer_slowly_is_not_cut_off():
    """As long as it takes some of it; one that takes nothing more is."""
    clock, transport = FakeClock(), Transport()
    server = Http1Server(lambda exchange: asyncio.Event().wait())
    protocol = server.protocol()
    protocol.connection_made(transport)
    protocol._loop = clock
    transport.get_write_buffer_size = lambda: unsent
    unsent = 6_000_000
    protocol.pause_writing()
    for unsent in range(5_900_000, 0, -100_000):  # noqa: B007 (the transport says so)
        clock.advance(RESPONSE_TAKEN_TIMEOUT)
        assert not transport.closed
    clock.advance(RESPONSE_TAKEN_TIMEOUT)
    assert transport.closed
    protocol.connection_lost(None)
    assert clock.armed == []


async def test_a_request_that_does_not_end_is_left_behind_at_the_servers_end(caplog):
    over = asyncio.Event()

    async def stubborn(exchange):
        while not over.is_set():
            with suppress(asyncio.CancelledError):
                await over.wait()

    server = Http1Server(stubborn)
    protocol = server.protocol()
    protocol.connection_made(Transport())
    protocol.data_received(HEALTHZ)
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(10):
            await server.shutdown(0)
    finally:
        over.set()
        await asyncio.wait(server.tasks)
        protocol.connection_lost(None)
    assert [each.getMessage() for each in caplog.records] == [
        "requests do not end, though they are broken off; they are left behind requests=1"
    ]
