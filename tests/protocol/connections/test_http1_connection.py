"""A connection of HTTP/1.1 with a side of the test's: what it asks of that, and tells it."""

from __future__ import annotations

import asyncio

import pytest

from partway.protocol.connections.http1_connection import RequestConnection
from partway.protocol.connections.http1_server import RequestServer
from partway.protocol.errors import ClientLeft
from tests.gateway.fleet.waiting import eventually

GET = b"GET /%s HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n"


class Transport(asyncio.Transport):
    def __init__(self):
        super().__init__({})
        self.written = []
        self.unsent = 0
        self.closed = False
        self.reading = True

    def write(self, data):
        self.written.append(bytes(data))

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def is_closing(self):
        return self.closed

    def can_write_eof(self):
        return False

    def get_write_buffer_size(self):
        return self.unsent

    def close(self):
        self.closed = True

    abort = close


class Side:
    """Answers each request with its path, and lets the connection be read when it is told so."""

    def __init__(self):
        self.told = []
        self.known = True
        self.waiting = None
        self.work = None

    async def answer(self, connection, request):
        if self.work is not None:
            await self.work(connection, request)
        connection.write(request.head.path.encode())
        return request.head.keeps

    def refuse(self, connection, broken):
        connection.write(b"refused")

    def note_broken(self, connection, broken):
        self.told.append(("broken", str(broken)))

    def wait(self, go_on):
        if self.known:
            return None
        self.waiting = go_on
        return self

    def cancel(self):
        self.told.append(("cancelled",))

    def holds(self, size, tls_read):
        self.told.append(("holds", size))

    def stalls(self, *, stalls):
        self.told.append(("stalls", stalls))

    def left(self, *, encrypted):
        self.told.append(("left", encrypted))


class BothWays:
    """A response that goes on beside its request."""

    def __init__(self, *, may_be_sent_to=True):
        self.told = []
        self._may_be_sent_to = may_be_sent_to

    def writing_paused(self):
        self.told.append("paused")

    def writing_resumed(self):
        self.told.append("resumed")

    def half_closed(self):
        self.told.append("half closed")
        return self._may_be_sent_to

    def request_broken(self):
        self.told.append("broken")

    def connection_lost(self):
        self.told.append("lost")


class Made:
    def __init__(self, **options):
        self.server = RequestServer(head_timeout=200.0, taken_within=200.0, **options)
        self.side = Side()
        self.transport = Transport()
        self.connection = RequestConnection(self.server, self.side, self.side)
        self.connection.connection_made(self.transport)

    async def open_both_ways(self, response):
        """Begin a response that goes on until the connection is let go of."""
        opened, over = asyncio.Event(), asyncio.Event()

        async def work(connection, request):
            connection.open_both_ways(response)
            opened.set()
            try:
                await over.wait()
            finally:
                connection.release()

        self.side.work = work
        self.connection.data_received(POST)
        await opened.wait()
        return over


@pytest.fixture
async def made():
    one = Made()
    yield one
    one.connection.connection_lost(None)
    await one.server.shutdown(0)


# --- Whether it is read --------------------------------------------------------------------------


async def test_a_turn_that_is_put_off_is_taken_once_it_may_be(made):
    side, transport = made.side, made.transport
    side.known = False
    made.connection.data_received(GET % b"a")
    await eventually(lambda: side.waiting is not None)
    assert not transport.reading
    assert side.told[-1] == ("holds", len(GET % b"a"))
    side.known = True
    side.waiting()
    await eventually(lambda: transport.written == [b"/a"])
    assert transport.reading


async def test_a_turn_that_is_put_off_is_taken_back_at_the_connections_end(made):
    made.side.known = False
    made.connection.data_received(GET % b"a")
    await eventually(lambda: made.side.waiting is not None)
    made.connection.connection_lost(None)
    assert made.side.told[-2:] == [("cancelled",), ("left", False)]
    assert made.transport.written == []


# --- What is answered ----------------------------------------------------------------------------


async def test_what_is_no_request_is_refused_behind_those_before_it(made):
    made.connection.data_received(GET % b"a" + GET % b"b" + b"no request\r\n\r\n")
    assert [each for each in made.side.told if each[0] == "broken"] == [("broken", "OtherProtocol")]
    await eventually(lambda: made.transport.closed)
    assert made.transport.written == [b"/a", b"/b", b"refused"]


async def test_a_server_that_ends_closes_a_connection_behind_its_response(made):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def work(connection, request):
        begun.set()
        await go_on.wait()

    made.side.work = work
    made.connection.data_received(GET % b"a")
    await begun.wait()
    made.server.ending = True
    made.connection.close_if_idle()
    assert not made.transport.closed
    go_on.set()
    await eventually(lambda: made.transport.closed)
    assert made.transport.written == [b"/a"]


# --- A client that leaves ------------------------------------------------------------------------


@pytest.mark.parametrize("waits_for", ["the body", "room", "something else"])
@pytest.mark.parametrize("cancels", [False, True])
async def test_a_client_that_leaves_is_told_to_who_waits_for_it(waits_for, cancels):
    """A task that waits for something else is cancelled; as the server has it, any is."""
    made, ended, begun = Made(cancels_waiting=cancels), [], asyncio.Event()

    async def work(connection, request):
        begun.set()
        try:
            match waits_for:
                case "the body":
                    await connection.reader.read(request)
                case "room":
                    await connection.room()
                case _:
                    await asyncio.Event().wait()
        except (ClientLeft, asyncio.CancelledError) as error:
            ended.append(type(error))
            raise

    made.side.work = work
    if waits_for == "room":
        made.connection.pause_writing()
    made.connection.data_received(POST)
    await begun.wait()
    made.connection.connection_lost(None)
    await eventually(lambda: ended)
    is_cancelled = cancels or waits_for == "something else"
    assert ended == [asyncio.CancelledError if is_cancelled else ClientLeft]
    await eventually(lambda: not made.server.tasks)


async def test_who_waits_for_the_next_request_is_never_cancelled():
    made = Made(cancels_waiting=True)
    made.connection.data_received(GET % b"a")
    await eventually(lambda: made.connection.reader.idle)
    (task,) = made.server.tasks
    made.connection.connection_lost(None)
    await task


# --- Both ways -----------------------------------------------------------------------------------


async def test_a_response_that_is_open_both_ways_hears_of_the_transport(made):
    response = BothWays()
    over = await made.open_both_ways(response)
    made.connection.pause_writing()
    made.connection.resume_writing()
    assert made.connection.eof_received()
    made.connection.connection_lost(None)
    assert response.told == ["paused", "resumed", "half closed", "lost"]
    assert ("stalls", True) not in made.side.told
    over.set()
    await eventually(lambda: not made.server.tasks)


@pytest.mark.parametrize("in_body", [True, False])
async def test_a_response_that_is_open_both_ways_hears_of_a_broken_body(made, in_body):
    """Bytes behind the request's own end are none of its business."""
    response = BothWays()
    opened = asyncio.Event()

    async def work(connection, request):
        connection.open_both_ways(response)
        opened.set()
        try:
            await asyncio.Event().wait()
        finally:
            connection.release()

    made.side.work = work
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    made.connection.data_received(head if in_body else GET % b"a")
    await opened.wait()
    made.connection.data_received(b"no chunk\r\n\r\n")
    assert made.side.told[-2][0] == "broken"
    assert response.told == (["broken"] if in_body else [])


async def test_a_response_that_was_let_go_of_hears_nothing_more(made):
    response = BothWays()
    over = await made.open_both_ways(response)
    over.set()
    await eventually(lambda: not made.server.tasks)
    assert made.connection.transport is None
    made.connection.pause_writing()
    made.connection.connection_lost(None)
    assert response.told == []


# --- A client that is slow -----------------------------------------------------------------------


async def test_whether_a_client_takes_less_than_it_is_sent_is_told(made):
    made.connection.pause_writing()
    made.connection.resume_writing()
    assert made.side.told == [("stalls", True), ("stalls", False)]
