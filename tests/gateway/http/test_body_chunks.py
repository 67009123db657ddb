"""An operation that awaits, on an HTTP/2 stream whose carrier does nothing by itself."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.http.body_chunks import AwaitedBodies
from partway.gateway.http.duplex import Parting
from partway.gateway.http.http2.stream import Http2Stream
from partway.gateway.limits import HTTP2_OPENING_WINDOW, HTTP2_STREAM_WINDOW
from partway.protocol.errors import ClientLeft
from partway.protocol.limits import WRITE_HIGH_WATER, WRITE_LOW_WATER
from tests.gateway.http.http2.test_stream import FakeCarrier
from tests.wire.peers import soon


class Awaited:
    """Bodies on a stream."""

    def __init__(self, taken_within=60.0, **carrier):
        self.carrier = FakeCarrier(**carrier)
        self.stream = Http2Stream(self.carrier, self.carrier, 5)
        self.left = 0
        self.bodies = AwaitedBodies(self.stream, self._on_left, taken_within)

    def _on_left(self):
        self.left += 1

    def receive(self, data, *, end=False):
        self.stream.data_received(data, len(data))
        if end:
            self.stream.request_ended()


@pytest.fixture
async def awaited():
    """Made inside the loop."""
    return Awaited


async def turn():
    """Let what waits run as far as it gets."""
    for _ in range(3):
        await asyncio.sleep(0)


# --- In ------------------------------------------------------------------------------------------


async def test_what_came_before_it_was_asked_for(awaited):
    made = awaited()
    made.receive(b"ab")
    made.receive(b"c", end=True)
    assert await made.bodies.read() == b"abc"
    assert await made.bodies.read() == b""
    assert await made.bodies.read() == b""


async def test_what_comes_while_it_is_waited_for(awaited):
    made = awaited()
    reading = asyncio.create_task(made.bodies.read())
    await turn()
    made.receive(b"ab")
    made.receive(b"c")
    assert await soon(reading) == b"ab"
    assert await made.bodies.read() == b"c"
    reading = asyncio.create_task(made.bodies.read())
    await turn()
    made.receive(b"", end=True)
    assert await soon(reading) == b""


async def test_credit_is_given_for_what_has_been_asked_for(awaited):
    """A client that sends whatever it may is held to a window, and waits for ever for no credit."""
    made = awaited()
    sent = read = 0

    def send():
        nonlocal sent
        while sent < HTTP2_OPENING_WINDOW + made.carrier.credit:
            sent += 1024
            made.receive(bytes(1024))

    send()
    assert made.carrier.credit == 0, "nobody has read"
    while read < 8 * HTTP2_STREAM_WINDOW:
        reading = asyncio.create_task(made.bodies.read())
        await turn()
        send()
        read += len(await soon(reading))
        assert sent - read <= HTTP2_STREAM_WINDOW + 1024


async def test_a_reader_that_gives_up_loses_nothing(awaited):
    made = awaited()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await made.bodies.read()
    made.receive(b"late")
    assert await made.bodies.read() == b"late"


# --- Out -----------------------------------------------------------------------------------------


async def test_a_piece_goes_out_at_once(awaited):
    made = awaited()
    await made.bodies.write(b"piece")
    assert made.carrier.sent == [(b"piece", False)]


async def test_over_the_high_water_mark_the_writer_waits(awaited):
    made = awaited(window=0, held_back=0)
    await made.bodies.write(bytes(WRITE_HIGH_WATER))
    writing = asyncio.create_task(made.bodies.write(b"more"))
    await turn()
    assert not writing.done()
    made.carrier.free = WRITE_HIGH_WATER - WRITE_LOW_WATER - 100
    made.carrier.stream_ready(made.stream)
    await turn()
    assert not writing.done()
    made.carrier.free = 104
    made.carrier.stream_ready(made.stream)
    await soon(writing)


async def test_a_client_that_takes_nothing_has_left(awaited):
    made = awaited(window=0, taken_within=0.01)
    with pytest.raises(ClientLeft, match=r"took no more of the response for 0\.01 s"):
        await made.bodies.write(bytes(WRITE_HIGH_WATER + 1))


# --- The end -------------------------------------------------------------------------------------


async def test_who_waits_is_told_that_the_client_left(awaited):
    made = awaited(window=0)
    reading = asyncio.create_task(made.bodies.read())
    writing = asyncio.create_task(made.bodies.write(bytes(WRITE_HIGH_WATER + 1)))
    await turn()
    made.stream.lost(Parting.CANCELLED)
    for waiting in (reading, writing):
        with pytest.raises(ClientLeft):
            await soon(waiting)
    assert made.left == 0
    for again in (made.bodies.read(), made.bodies.write(b"x")):
        with pytest.raises(ClientLeft):
            await again


async def test_a_client_that_leaves_between_a_chunk_and_its_reader(awaited):
    """Nobody is left waiting who is told of nothing."""
    made = awaited()
    reading = asyncio.create_task(made.bodies.read())
    await turn()
    made.receive(b"chunk")
    made.bodies.connection_lost(Parting.CANCELLED)
    with pytest.raises(ClientLeft):
        await soon(reading)
    assert made.left == 0


async def test_where_nobody_waits_the_owner_is_told(awaited):
    made = awaited()
    made.stream.lost()
    await turn()
    assert (made.left, made.bodies.left) == (1, True)


async def test_behind_the_response_nobody_is_told(awaited):
    made = awaited()
    made.bodies.stop()
    made.stream.finish(b"", b"")
    await turn()
    assert (made.left, made.bodies.left) == (0, False)
