"""partway.gateway.fleet.health.ping: what is wrong with a container, and which endpoints answer."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.health import ping_socket
from partway.gateway.fleet.health.ping import _Hearing, ping, tell_which_answer
from partway.gateway.fleet.launchers.process import HOST, free_port
from partway.gateway.fleet.limits import PING_TIMEOUT, PINGS_AT_ONCE
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address, OutOfDescriptors
from partway.gateway.tls.context import server_context
from partway.gateway.tls.local_ca import LocalCa
from partway.gateway.tls.trust import Trust
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

#: On a busy machine a connection may be accepted late.
PATIENCE = 20.0

STATUS = "/ping was answered with status {}"
NO_HTTP = "/ping was not answered with valid HTTP: {}"
NO_STATUS_LINE = "the answer does not begin with a status line of HTTP/1.1"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Answering:
    """A server on loopback that answers each connection's request with the same bytes."""

    def __init__(self, answer: bytes, tls=None) -> None:
        self.waiting = 0
        self.most = 0
        self._answer = answer
        self._tls = tls

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, HOST, 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()

    async def _serve(self, reader, writer):
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self._answer)
            with suppress(ConnectionResetError):  # all that was said need not be read
                await reader.read()
        finally:
            self.waiting -= 1
            writer.close()


async def asked(host, port, clock=None, tls=None):
    asking = ping(Address(host, port), clock or FakeClock(), tls, connect_timeout=PATIENCE)
    return await soon(asking)


@pytest.mark.clause("1.1-2")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (OK, None),
        (OK.replace(b"200", b"503"), STATUS.format(503)),
        (OK.replace(b"200", b"405"), STATUS.format(405)),
        (OK.replace(b" OK", b""), None),
        (b"HTTP/1.0 200 OK\n\n", None),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK, None),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK.replace(b"200", b"500"), STATUS.format(500)),
        (
            b"nonsense\r\n\r\n",
            NO_HTTP.format(NO_STATUS_LINE),
        ),
        (
            b"HTTP/2 200\r\n\r\n",
            NO_HTTP.format(NO_STATUS_LINE),
        ),
        (b"a" * 20_000, NO_HTTP.format(NO_STATUS_LINE)),
    ],
)
@pytest.mark.parametrize("host", [HOST, "localhost"])
async def test_what_an_answer_means(host, answer, expected):
    """By an address that is asked over a bare socket, and by a name."""
    async with Answering(answer) as server:
        assert await asked(host, server.port) == expected


async def test_another_path_is_asked_for_in_its_place():
    heard = []

    async def hear(reader, writer):
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK.replace(b"200", b"503"))
        writer.close()

    async with await asyncio.start_server(hear, HOST, 0) as server:
        address = Address(HOST, server.sockets[0].getsockname()[1])
        asking = ping(address, FakeClock(), connect_timeout=PATIENCE, route="/v1/health")
        assert await soon(asking) == "/v1/health was answered with status 503"
    assert heard[0].startswith(b"GET /v1/health HTTP/1.1\r\n")


async def test_nobody_there():
    assert await asked(HOST, free_port()) == "Connection refused"
    for host in ("no-such-host.invalid", "a" * 64 + ".invalid"):
        assert (await asked(host, 80)).startswith(f"the host {host} has no address")


def none_left(*_):
    raise OSError(errno.EMFILE, "none")


async def test_no_descriptor_is_left_to_ask_with(monkeypatch, caplog):
    monkeypatch.setattr(ping_socket.socket, "socket", none_left)
    with pytest.raises(OutOfDescriptors):
        await asked(HOST, 1)
    await soon(tell_which_answer([endpoint("a", 1)], FakeClock()))
    (line,) = caplog.records
    assert line.getMessage() == (
        f'endpoint was not pinged endpoint=a container=http://{HOST}:1 reason="Too many open files"'
    )
    assert line.exc_info is None


async def test_a_connection_that_is_closed_is_no_answer():
    async with await asyncio.start_server(lambda _, writer: writer.close(), HOST, 0) as server:
        port = server.sockets[0].getsockname()[1]
        said = await asked(HOST, port)
    assert said is not None
    assert said.startswith("/ping was not answered with valid HTTP: ")


async def test_an_interim_answer_without_an_end():
    async with Answering(b"HTTP/1.1 100 Continue\r\n" + b"a" * 20_000) as server:
        assert await asked(HOST, server.port) == NO_HTTP.format("an interim answer has no end")


async def test_nobody_need_hear_of_a_connection_that_is_lost(caplog):
    """Whoever asked may have been cancelled before the connection was theirs."""
    hearing = _Hearing()
    hearing.connection_lost(None)
    del hearing
    gc.collect()
    await asyncio.sleep(0)
    assert caplog.records == []


async def test_interim_answers_come_to_an_end():
    async with Answering(b"HTTP/1.1 100\r\n\r\n" * 20_000) as server:
        said = await asked(HOST, server.port)
    assert said is not None
    assert said.startswith("/ping was not answered with valid HTTP: ")


async def test_no_answer_in_time():
    clock = FakeClock()
    async with Answering(b"") as server:
        asking = asyncio.create_task(asked(HOST, server.port, clock))
        await eventually(lambda: server.waiting and clock.armed)
        clock.advance(PING_TIMEOUT)
        assert await asking == "/ping was not answered within 2 s"


@pytest.mark.clause("1.1-2")
@pytest.mark.parametrize("host", [HOST, "localhost"])
async def test_one_that_refuses_get_late_has_what_is_left_for_post(host):
    clock, asked_for, late = FakeClock(), [], asyncio.Event()

    async def hang(reader, writer):
        asked_for.append((await reader.readuntil(b" ")).decode())
        if asked_for[-1] == "GET ":
            await late.wait()
            writer.write(OK.replace(b"200", b"405"))
        with suppress(ConnectionResetError):
            await reader.read()
        writer.close()

    async with await asyncio.start_server(hang, HOST, 0) as server:
        port = server.sockets[0].getsockname()[1]
        asking = asyncio.create_task(asked(host, port, clock))
        await eventually(lambda: asked_for and clock.armed)
        clock.advance(PING_TIMEOUT * 3 / 4)
        late.set()
        await eventually(lambda: len(asked_for) == 2)
        clock.advance(PING_TIMEOUT / 4)
        assert await asking == "/ping was not answered within 2 s"
        assert clock.now == 1000 + PING_TIMEOUT
    assert asked_for == ["GET ", "POST "]


async def test_over_tls(tmp_path):
    files = LocalCa(tmp_path).ensure(["localhost"], datetime.now(UTC))
    async with Answering(OK, server_context(files)) as server:
        at = "localhost", server.port
        assert await asked(*at, tls=Trust(files.ca).context()) is None
        untrusted = await asked(*at, tls=Trust().context())
    assert untrusted is not None
    assert untrusted.startswith("the server's certificate is not trusted: ")
    assert "certificate" in untrusted.partition(": ")[2]


async def test_tls_at_a_server_without():
    def no_request(_, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(no_request, HOST, 0) as server:
        port = server.sockets[0].getsockname()[1]
        trouble = await asked(HOST, port, tls=Trust().context())
    assert trouble is not None
    assert trouble.startswith("the server does not speak TLS on this port (")


# --- All endpoints -------------------------------------------------------------------------------


def endpoint(name, port):
    return Endpoint.attached(name, Address(HOST, port), StreamPolicy())


async def test_each_endpoint_has_one_line(caplog):
    closed = free_port()
    async with Answering(OK) as well, Answering(OK.replace(b"200", b"503")) as ill:
        endpoints = [endpoint("a", well.port), endpoint("b", ill.port), endpoint("c", closed)]
        with caplog.at_level(logging.INFO, "partway.fleet"):
            await soon(tell_which_answer(endpoints, FakeClock()))
    no = "endpoint does not answer"
    b, c = (f"http://{HOST}:{port}" for port in (ill.port, closed))
    assert sorted((each.levelname, each.getMessage()) for each in caplog.records) == [
        ("INFO", f"endpoint answers endpoint=a container=http://{HOST}:{well.port}"),
        ("WARNING", f'{no} endpoint=b container={b} reason="{STATUS.format(503)}"'),
        ("WARNING", f'{no} endpoint=c container={c} reason="Connection refused"'),
    ]


async def test_a_fault_of_one_is_told_and_silences_no_other(caplog, monkeypatch):
    def no_context(_):
        raise MemoryError

    monkeypatch.setattr(Trust, "context", no_context)
    async with Answering(OK) as well:
        spoilt = Endpoint.attached("a", Address(HOST, well.port), StreamPolicy(), tls=Trust())
        with caplog.at_level(logging.INFO, "partway.fleet"):
            await soon(tell_which_answer([spoilt, endpoint("b", well.port)], FakeClock()))
    first, second = caplog.records
    assert first.getMessage() == (
        f"endpoint was not pinged endpoint=a container=https://{HOST}:{well.port}"
    )
    assert first.exc_info[0] is MemoryError
    assert second.getMessage().startswith("endpoint answers endpoint=b ")


async def test_no_more_are_asked_at_a_time_than_that(caplog):
    """However many there are, they take no more than their share of connections."""
    clock = FakeClock()
    async with Answering(b"") as server:
        endpoints = [endpoint(f"e{n}", server.port) for n in range(PINGS_AT_ONCE + 1)]
        telling = asyncio.create_task(tell_which_answer(endpoints, clock))
        await eventually(lambda: server.waiting == PINGS_AT_ONCE)
        clock.advance(PING_TIMEOUT)
        await eventually(lambda: server.waiting == 1)
        clock.advance(PING_TIMEOUT)
        await soon(telling)
    assert server.most == PINGS_AT_ONCE
    assert len(caplog.records) == PINGS_AT_ONCE + 1


async def test_it_ends_when_it_is_told_to(caplog):
    async with Answering(b"") as server:
        telling = asyncio.create_task(tell_which_answer([endpoint("a", server.port)], FakeClock()))
        await eventually(lambda: server.waiting)
        telling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await telling
        await eventually(lambda: not server.waiting)
