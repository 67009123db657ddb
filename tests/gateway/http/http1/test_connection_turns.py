"""A connection of HTTP/1.1: its turns, and what waits for them when it ends."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from partway.gateway.http.connection_admission import Crowd, uncounted
from partway.gateway.http.http1.server import Http1Server
from partway.gateway.http.unauthenticated_clients import Account, Strangers
from partway.gateway.limits import RESPONSE_TAKEN_TIMEOUT
from partway.gateway.tls.context import server_context
from partway.gateway.tls.local_ca import LocalCa
from partway.protocol.connections.fair_turns import rounds
from partway.protocol.connections.tcp import has_ended
from partway.protocol.http1.parser import RequestParser
from partway.protocol.limits import HTTP1_BYTES_PER_TURN, HTTP1_HELD_BYTES, JOIN_UP_TO, LONG_READ
from tests.gateway.fleet.waiting import eventually
from tests.gateway.streams.fakes import FakeClock

HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


class Transport(asyncio.Transport):
    def __init__(self, **extra):
        super().__init__(extra)
        self.unsent = 0
        self.closed = False
        self.reading = True

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def is_closing(self):
        return self.closed

    def get_write_buffer_size(self):
        return self.unsent

    def close(self):
        self.closed = True

    abort = close


class Noting(Transport):
    """A transport that notes what is done to it, in a list that others may note in too."""

    def __init__(self, noted, name="", **extra):
        super().__init__(**extra)
        self._noted = noted
        self._name = name

    def write(self, data):
        self._noted.append((self._name, bytes(data)))

    def close(self):
        if not self.closed:  # as of a loop's, a second time does nothing
            super().close()
            self._noted.append((self._name, "closed"))

    abort = close


class Writable(Transport):
    """A transport that takes whatever is written."""

    def write(self, data):
        """Nobody looks at it."""


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
    assert protocol.reader._unparsed == HEALTHZ + b"x" * 1000
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
    transport.unsent = 6_000_000
    protocol.pause_writing()
    for unsent in range(5_900_000, 0, -100_000):
        transport.unsent = unsent
        clock.advance(RESPONSE_TAKEN_TIMEOUT)
        assert not transport.closed
    clock.advance(RESPONSE_TAKEN_TIMEOUT)
    assert transport.closed
    protocol.connection_lost(None)
    assert clock.armed == []


@pytest.mark.parametrize("was_behind", [True, False])
async def test_what_is_unsent_of_a_connection_that_closes_is_waited_for_while_some_is_taken(
    *, was_behind
):
    """Whether its client was behind by then, or had taken all so far; or else it never ends."""
    clock, transport, aborted = FakeClock(), Transport(), []
    server = Http1Server(lambda exchange: asyncio.Event().wait())
    protocol = server.protocol()
    protocol.connection_made(transport)
    protocol._loop = clock
    transport.unsent = 50_000
    transport.abort = lambda: aborted.append(transport.unsent)
    if was_behind:
        protocol.pause_writing()
    protocol.close_if_idle()
    assert transport.closed
    if was_behind:
        protocol.resume_writing()
    for unsent in range(40_000, 0, -10_000):
        transport.unsent = unsent
        clock.advance(RESPONSE_TAKEN_TIMEOUT)
    assert aborted == []
    clock.advance(RESPONSE_TAKEN_TIMEOUT)
    assert aborted == [10_000]
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
        "requests did not end after they were broken off requests=1"
    ]


async def test_what_a_connection_holds_is_known_of_each_head():
    async def answer(exchange):
        exchange.respond(200)

    server, crowd = Http1Server(answer), Crowd(9, 9)
    visitor = crowd.enter("192.0.2.1", lambda: None)
    visitor.account.known = True
    empty = visitor.held
    protocol = server.protocol(visitor)
    protocol.connection_made(Writable())
    for date in (b"one", b"two", b"two", b"another", b"two"):
        protocol.data_received(b"\r\n" if date == b"two" else b"")
        head = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nX-Amz-Date: %b\r\n\r\n" % date
        protocol.data_received(head)
        await eventually(lambda: protocol.reader.idle and not protocol.reader.requests)
        assert visitor.held - empty == protocol.reader._parser.held
    protocol.connection_lost(None)
    await server.shutdown(0)


async def test_what_a_stranger_has_sent_who_waits_is_known_to_be_held():
    strangers, crowd = Strangers(FakeClock()), Crowd(9, 9, account_from=lambda _: stranger)
    stranger = strangers.account("192.0.2.1")
    stranger.draw(10.0)
    visitor = crowd.enter("192.0.2.1", lambda: None)
    empty = visitor.held
    server = Http1Server(lambda exchange: asyncio.Event().wait())
    protocol = server.protocol(visitor)
    protocol.connection_made(Transport())
    protocol.data_received(b"x" * 10_000)
    await asyncio.sleep(0)
    assert visitor.held - empty == 10_000
    protocol.connection_lost(None)
    await server.shutdown(0)


LONG_POST = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n"


@pytest.mark.parametrize("both_ways", [False, True])
async def test_a_client_that_has_ended_its_side_while_it_is_not_read_from(monkeypatch, both_ways):
    """It has left, unless both bodies are open: then its own may be whole, and ours goes on."""
    looks, connections, over, left = [], [], asyncio.Event(), asyncio.Event()

    def look(transport):
        looks.append(transport)
        return has_ended(transport)

    def connection():
        connections.append(server.protocol())
        return connections[0]

    monkeypatch.setattr("partway.protocol.limits.LEAVING_INTERVAL", 0.02)
    monkeypatch.setattr("partway.protocol.connections.http1_reading.has_ended", look)

    async def answer(exchange):
        if both_ways:
            await exchange.open(200, {})
        try:
            await over.wait()
        finally:
            left.set()

    server = Http1Server(answer)
    listener = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
    async with listener:
        with socket.create_connection(listener.sockets[0].getsockname()) as client:
            client.sendall(LONG_POST + bytes(HTTP1_HELD_BYTES + 1))
            client.shutdown(socket.SHUT_WR)
            if both_ways:
                await eventually(lambda: connections and connections[0].reader._leaving)
                first = connections[0].reader._leaving
                await eventually(lambda: connections[0].reader._leaving is not first)
                assert not looks
                assert not left.is_set()
                connections[0].abort()
                over.set()
            await asyncio.wait_for(left.wait(), 20)
            await server.shutdown(1)


async def test_a_client_that_leaves_unread_has_the_answers_that_were_sent(monkeypatch):
    """With something left unread, TCP would send RST, which erases them."""
    monkeypatch.setattr("partway.protocol.limits.LEAVING_INTERVAL", 0.02)
    begun, left = asyncio.Event(), asyncio.Event()

    async def answer(exchange):
        exchange.respond(200, b"x" * 10_000)
        if exchange.path == "/last":
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                left.set()

    server = Http1Server(answer)
    listener = await asyncio.get_running_loop().create_server(server.protocol, "127.0.0.1", 0)
    async with listener:
        with socket.create_connection(listener.sockets[0].getsockname(), 20) as client:
            client.sendall(HEALTHZ + HEALTHZ.replace(b"/healthz", b"/last") + HEALTHZ)
            await begun.wait()
            (protocol,) = server._connections
            client.sendall(HEALTHZ)
            await eventually(lambda: protocol.reader.paused)
            client.sendall(HEALTHZ * 1000)
            client.shutdown(socket.SHUT_WR)
            await asyncio.wait_for(left.wait(), 20)
            said = await asyncio.to_thread(_all_of, client)
            assert said.count(b"200 OK") == 1
            assert said.endswith(b"x" * 10_000)
        await server.shutdown(1)


def _all_of(client):
    said = b""
    while data := client.recv(65536):
        said += data
    return said


@pytest.fixture
async def by_tls(tmp_path):
    """Serve what is answered so; gives the server, and a client that has asked."""
    files = LocalCa(tmp_path).ensure(["localhost"], datetime.now(UTC))
    loop, opened = asyncio.get_running_loop(), []

    async def asked(server, request):
        listening = await loop.create_server(
            server.protocol, "127.0.0.1", 0, ssl=server_context(files)
        )
        address = listening.sockets[0].getsockname()
        context = ssl.create_default_context(cafile=files.ca)
        _, writer = await asyncio.open_connection(
            *address, ssl=context, server_hostname="localhost"
        )
        opened.append((listening, writer))
        writer.write(request)
        return writer

    yield asked
    for listening, writer in opened:
        writer.transport.abort()
        listening.close()


@pytest.mark.parametrize("closes", [False, True])
async def test_by_tls_too_a_client_that_leaves_unread_is_noticed(by_tls, monkeypatch, closes):
    """And where the connection ends with the response, which asyncio's does not while paused."""
    monkeypatch.setattr("partway.protocol.limits.LEAVING_INTERVAL", 60 if closes else 0.02)
    begun, go_on, left = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def answer(exchange):
        begun.set()
        try:
            await go_on.wait()
            exchange.respond(200)
        finally:
            left.set()

    server = Http1Server(answer)
    head = LONG_POST.replace(b"Host: a", b"Host: a\r\nConnection: close") if closes else LONG_POST
    writer = await by_tls(server, head + bytes(HTTP1_HELD_BYTES + 1))
    await begun.wait()
    (protocol,) = server._connections
    await eventually(lambda: protocol.reader.paused and protocol.reader._turn is None)
    writer.transport.abort()
    if closes:
        await eventually(lambda: protocol.transport is None or has_ended(protocol.transport))
        go_on.set()
    await asyncio.wait_for(left.wait(), 20)
    await eventually(lambda: not server._connections)
    await server.shutdown(1)


async def test_a_server_that_ends_while_a_connection_by_tls_is_closing(by_tls):
    """asyncio's TLS breaks where it is closed twice."""
    server = Http1Server(lambda exchange: asyncio.Event().wait())
    writer = await by_tls(server, b"")
    await eventually(lambda: server._connections)
    (protocol,) = server._connections
    writer.transport.pause_reading()  # so that it does not answer close_notify
    protocol.close_if_idle()
    async with asyncio.timeout(20):
        await server.shutdown(0)
    await eventually(lambda: not server._connections)


async def test_a_transport_that_is_somebody_elses_is_not_looked_at(monkeypatch):
    """Where it was paused when it was handed over, whoever has it resumes it."""
    ended = []
    monkeypatch.setattr("partway.protocol.limits.LEAVING_INTERVAL", 0)
    monkeypatch.setattr(
        "partway.protocol.connections.http1_reading.has_ended", lambda _: bool(ended)
    )
    server = Http1Server(lambda exchange: asyncio.Event().wait())
    protocol, transport = server.protocol(), Transport()
    protocol.connection_made(transport)
    protocol.data_received(LONG_POST + bytes(HTTP1_HELD_BYTES + 1))
    await eventually(lambda: protocol.reader.paused and protocol.reader._turn is None)
    protocol.set_parser(SimpleNamespace(feed_data=lambda data: None))
    ended.append(True)
    await eventually(lambda: protocol.reader._leaving is None)
    assert not transport.reading
    protocol.connection_lost(None)
    await server.shutdown(0)


# --- When responses leave ------------------------------------------------------------------------


async def test_responses_to_requests_in_one_read_leave_in_their_order():
    noted = []

    async def answer(exchange):
        exchange.respond(200, exchange.path.encode())

    server = Http1Server(answer)
    protocol = server.protocol()
    protocol.connection_made(Noting(noted))
    protocol.data_received(HEALTHZ.replace(b"healthz", b"a") + HEALTHZ.replace(b"healthz", b"b"))
    await eventually(lambda: len(noted) == 2)
    assert [data.rpartition(b"\r\n")[2] for _, data in noted] == [b"/a", b"/b"]
    protocol.connection_lost(None)
    await server.shutdown(0)


async def is_answered_and_closed(server, protocol, transport, noted):
    """One response, and then the connection's end."""
    await eventually(lambda: transport.closed)
    protocol.connection_lost(None)
    await server.shutdown(0)
    (_, data), *rest = noted
    assert data.startswith(b"HTTP/1.1 200 OK\r\n")
    assert rest == [("", "closed")]


@pytest.mark.parametrize(
    "how", ["the client ends its side", "aborted", "dropped", "no head", "closed"]
)
async def test_a_response_leaves_before_its_connection_ends(how):
    """In the very turn in which it was made."""
    noted = []

    def end():
        match how:
            case "aborted":
                protocol.abort()
            case "dropped":
                visitor.drop()
            case "no head":
                protocol._no_head_came()
            case "closed":
                protocol.close_if_idle()
            case _:
                if not protocol.eof_received():  # as loops have it
                    transport.close()

    async def answer(exchange):
        asyncio.get_running_loop().call_soon(end)
        exchange.respond(200)

    server, visitor = Http1Server(answer), uncounted()
    protocol, transport = server.protocol(visitor), Noting(noted)
    protocol.connection_made(transport)
    protocol.data_received(HEALTHZ)
    server.ending = how == "closed"
    await is_answered_and_closed(server, protocol, transport, noted)


@pytest.mark.parametrize(("status", "size"), [(200, 0), (200, JOIN_UP_TO), (204, 0)])
async def test_a_small_response_leaves_at_once_in_one_write(status, size):
    noted = []

    async def answer(exchange):
        exchange.respond(status, bytes(size))
        asyncio.get_running_loop().call_soon(noted.append, "the loop's next turn")

    server = Http1Server(answer)
    protocol = server.protocol()
    protocol.connection_made(Noting(noted))
    protocol.data_received(HEALTHZ)
    await eventually(lambda: "the loop's next turn" in noted)
    (_, response), _ = noted
    assert response.endswith(b"\r\n\r\n" + bytes(size))
    protocol.connection_lost(None)
    await server.shutdown(0)


async def test_a_response_leaves_before_the_one_behind_it_is_broken_off(caplog):
    noted = []

    async def answer(exchange):
        if exchange.path == "/a":
            exchange.respond(200)
        else:
            await exchange.begin(200)
            raise ValueError

    server = Http1Server(answer)
    protocol, transport = server.protocol(), Noting(noted)
    protocol.connection_made(transport)
    protocol.data_received(HEALTHZ.replace(b"healthz", b"a") + HEALTHZ)
    await is_answered_and_closed(server, protocol, transport, noted)
    assert [each.getMessage() for each in caplog.records] == ["the answer to a request has failed"]


def asks_by_tls_and_ends_tcp(port, roots):
    """The response to a client that ends TCP behind its request, and leaves TLS open."""
    context = ssl.create_default_context(cafile=roots)
    context.check_hostname = False
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(received, sent)
    with socket.create_connection(("127.0.0.1", port), 10) as raw:
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                raw.sendall(sent.read())
                received.write(raw.recv(65536))
        raw.sendall(sent.read())
        received.write(raw.recv(65536))  # tickets: the server's handshake is over too
        client.write(HEALTHZ)
        raw.sendall(sent.read())
        raw.shutdown(socket.SHUT_WR)
        while data := raw.recv(65536):
            received.write(data)
    try:
        return client.read(65536)
    except ssl.SSLError:
        return b""


async def test_a_client_that_ends_tcp_behind_its_request_by_tls_has_its_response(tmp_path):
    async def answer(exchange):
        exchange.respond(200)

    server = Http1Server(answer)
    files = LocalCa(tmp_path).ensure(["localhost"], datetime.now(UTC))
    context = server_context(files)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(server.protocol, "127.0.0.1", 0, ssl=context)
    port = listening.sockets[0].getsockname()[1]
    for _ in range(10):
        said = await asyncio.to_thread(asks_by_tls_and_ends_tcp, port, files.ca)
        assert said.startswith(b"HTTP/1.1 200 OK\r\n")
    listening.close()
    await server.shutdown(1)


ASKED = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"


class Answering:
    """A connection that is known, and whose requests are answered; their paths and bodies."""

    def __init__(self, account=None):
        self.asked = []
        self.server = Http1Server(self._answer)
        self.protocol = self.server.protocol(uncounted(account))
        self.protocol.connection_made(Writable())

    async def _answer(self, exchange):
        self.asked.append((exchange.path, await exchange.body(1 << 20)))
        exchange.respond(200)

    async def answered(self, count):
        """Return once so many have been asked, and the next is waited for."""
        await eventually(lambda: len(self.asked) >= count and self.protocol.reader.idle)


@pytest.fixture
async def known():
    """One that has been asked once."""
    made = Answering()
    made.protocol.data_received(ASKED % 0)
    await made.answered(1)
    yield made
    made.protocol.connection_lost(None)
    await made.server.shutdown(0)


async def test_a_body_that_looks_like_the_last_head_is_a_body(known):
    body = ASKED % 0
    known.protocol.data_received(ASKED % len(body))
    known.protocol.data_received(body)  # in the same turn of the loop
    await known.answered(2)
    assert known.asked[1:] == [("/a", body)]


async def test_a_header_that_looks_like_the_last_head_is_a_header(known):
    known.protocol.data_received(b"GET /b HTTP/1.1\r\nX: ")
    known.protocol.data_received(ASKED % 0)
    await known.answered(2)
    assert known.asked[1:] == [("/b", b"")]


async def test_what_looks_like_the_last_head_is_nobodys_behind_a_last_request(known):
    known.protocol.data_received(b"GET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    known.protocol.data_received(ASKED % 0)
    await eventually(lambda: known.protocol.transport.closed)
    assert known.asked[1:] == [("/b", b"")]


async def test_a_request_like_the_last_comes_behind_what_has_come_before_it(known, monkeypatch):
    monkeypatch.setattr(rounds, "busy", lambda: True)
    body = b"x" * (LONG_READ + 1)
    known.protocol.data_received(ASKED.replace(b"/a", b"/b") % len(body) + body)
    known.protocol.data_received(ASKED % 0)
    await known.answered(3)
    assert known.asked[1:] == [("/b", body), ("/a", b"")]


async def test_a_long_one_like_the_last_has_its_turn_in_a_round_all_the_same(known, monkeypatch):
    monkeypatch.setattr(rounds, "busy", lambda: True)
    body = b"x" * LONG_READ
    known.protocol.data_received(ASKED % len(body) + body)
    assert not known.protocol.reader.requests
    await known.answered(2)
    assert known.asked[1:] == [("/a", body)]


async def test_a_strangers_second_request_has_its_turn_in_a_round_too():
    made = Answering(Account())
    for count in (1, 2):
        made.protocol.data_received(ASKED % 0)
        assert not made.protocol.reader.requests
        await made.answered(count)
    made.protocol.connection_lost(None)
    await made.server.shutdown(0)
