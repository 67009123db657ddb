"""gateway.fleet.health.ping_socket: a bare socket that asks, and what may go wrong with it."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from contextlib import ExitStack

import pytest

from partway.gateway.fleet.health import ping_socket
from partway.gateway.fleet.health.ping_answer import NoAnswer
from partway.gateway.fleet.health.ping_socket import ask_by_socket
from partway.gateway.fleet.launchers.process import HOST, free_port
from partway.gateway.network.dialling import Address, OutOfDescriptors, Silent, Unreachable
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

REQUEST = b"GET /ping HTTP/1.1\r\n\r\n"
PATIENCE = 20.0


async def asked(port, clock=None, connect_timeout=PATIENCE, host=HOST, family=socket.AF_INET):
    return await soon(
        ask_by_socket(
            family,
            Address(host, port),
            REQUEST,
            clock or FakeClock(),
            timeout=2.0,
            connect_timeout=connect_timeout,
        )
    )


def listening(backlog=1, host=HOST, family=socket.AF_INET):
    server = socket.create_server((host, 0), family=family, backlog=backlog)
    return server, server.getsockname()[1]


async def accepted(server):
    server.setblocking(False)
    connection, _ = await soon(asyncio.get_running_loop().sock_accept(server))
    return connection


async def test_it_asks_once_and_hears_the_answer_in_pieces():
    loop = asyncio.get_running_loop()
    server, port = listening()
    with server:
        asking = asyncio.create_task(asked(port))
        with await accepted(server) as connection:
            assert await soon(loop.sock_recv(connection, 1000)) == REQUEST
            await loop.sock_sendall(connection, b"HTTP/1.1 2")
            await asyncio.sleep(0)
            assert not asking.done()
            await loop.sock_sendall(connection, b"00 OK\r\n")
            assert await asking == 200
            assert await soon(loop.sock_recv(connection, 1000)) == b""


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
async def test_an_address_of_ipv6():
    server, port = listening(host="::1", family=socket.AF_INET6)
    with server:
        asking = asyncio.create_task(asked(port, host="::1", family=socket.AF_INET6))
        with await accepted(server) as connection:
            connection.sendall(b"HTTP/1.1 503 No\r\n")
            assert await asking == 503


async def test_nobody_listens():
    with pytest.raises(Unreachable, match=r"^Connection refused$"):
        await asked(free_port())


async def test_a_queue_that_is_full_is_not_waited_for():
    """Clause 1.1-2's container that has stopped accepting: the kernel answers no more for it."""
    server, port = listening(backlog=0)
    with server, ExitStack() as stack:
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex((HOST, port))
        with pytest.raises(Silent, match="no connection was accepted within 50 ms"):
            await asked(port, connect_timeout=0.05)


async def test_the_socket_is_looked_at_before_it_is_blamed():
    """The answer has come; the loop has not seen it, since it was busy until the time was over."""
    clock = FakeClock()
    server, port = listening()
    with server:
        asking = asyncio.create_task(asked(port, clock))
        with await accepted(server) as connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            clock.advance(2.0)
            assert await asking == 200


async def test_silence_has_an_end():
    clock = FakeClock()
    server, port = listening()
    with server:
        asking = asyncio.create_task(asked(port, clock))
        with await accepted(server):
            clock.advance(2.0)
            with pytest.raises(TimeoutError):
                await asking
    assert not clock.armed


async def test_a_connection_that_is_reset():
    server, port = listening()
    with server:
        asking = asyncio.create_task(asked(port))
        connection = await accepted(server)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
        with pytest.raises(NoAnswer, match=os.strerror(errno.ECONNRESET)):
            await asking


async def test_no_descriptor_is_left(monkeypatch):
    def none_left(*_):
        raise OSError(errno.EMFILE, "none")

    monkeypatch.setattr(ping_socket.socket, "socket", none_left)
    with pytest.raises(OutOfDescriptors, match=r"^Too many open files$"):
        await ask_by_socket(
            socket.AF_INET, Address(HOST, 1), REQUEST, FakeClock(), timeout=2, connect_timeout=1
        )


async def test_whoever_asks_may_leave():
    clock = FakeClock()
    server, port = listening()
    with server:
        asking = asyncio.create_task(asked(port, clock))
        with await accepted(server) as connection:
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            loop = asyncio.get_running_loop()
            assert await soon(loop.sock_recv(connection, 1000)) == REQUEST
            assert await soon(loop.sock_recv(connection, 1000)) == b""
    await eventually(lambda: not clock.armed)
