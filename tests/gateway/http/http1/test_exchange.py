"""A request of HTTP/1.1 as an exchange: what goes to the client in which write."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.http.body_quota import HeldBytes
from partway.gateway.http.http1.server import Http1Server
from partway.gateway.quota import Quota, QuotaLimits
from partway.protocol.errors import RequestTooLarge, ServiceUnavailable


class Written(asyncio.Transport):
    """A transport that keeps each write by itself."""

    def __init__(self):
        super().__init__()
        self.writes = []

    def write(self, data):
        self.writes.append(bytes(data))

    def is_closing(self):
        return False

    def close(self):
        """What was written stays to be looked at."""


@pytest.mark.parametrize(
    ("first", "waits", "writes"),
    [
        (b"first", True, [b"HTTP/1.1 200 OK\r\n...\r\n\r\n5\r\nfirst\r\n", b"0\r\n\r\n"]),
        (b"", False, [b"HTTP/1.1 200 OK\r\n...\r\n\r\n5\r\nfirst\r\n", b"0\r\n\r\n"]),
        (b"", True, [b"HTTP/1.1 200 OK\r\n...\r\n\r\n", b"5\r\nfirst\r\n", b"0\r\n\r\n"]),
    ],
    ids=["given with it", "with its first piece", "by itself where that is not there yet"],
)
async def test_a_head_is_written_at_once(first, waits, writes):
    over = asyncio.Event()

    async def answer(exchange):
        await exchange.begin(200, first=first)
        if waits:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        if not first:
            await exchange.write(b"first")
        await exchange.end()
        over.set()

    server = Http1Server(answer)
    protocol, transport = server.protocol(), Written()
    protocol.connection_made(transport)
    protocol.data_received(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
    async with asyncio.timeout(5):
        await over.wait()
    head, _, rest = transport.writes[0].partition(b"\r\n\r\n")
    status = head.partition(b"\r\n")[0]
    assert [status + b"\r\n...\r\n\r\n" + rest, *transport.writes[1:]] == writes
    protocol.connection_lost(None)
    await server.shutdown(0)


@pytest.mark.parametrize(
    ("limit", "room", "error"), [(3, 100, RequestTooLarge), (100, 3, ServiceUnavailable)]
)
async def test_a_body_that_was_refused_is_refused_again_and_not_lost(limit, room, error):
    """Who asks first may leave it to who asks next to tell the client."""
    budget = Quota(QuotaLimits(room, room))
    taken, over = [], asyncio.Event()

    async def answer(exchange):
        exchange.holding = HeldBytes(budget, ("one",))
        for _ in range(2):
            with pytest.raises(error):
                exchange.body_at_hand(limit)
            with pytest.raises(error):
                await exchange.body(limit)
        assert not exchange.gathered
        exchange.holding = HeldBytes(Quota(QuotaLimits(100, 100)), ("one",))
        taken.append(await exchange.body(100))
        exchange.respond(200)
        over.set()

    server = Http1Server(answer)
    protocol = server.protocol()
    protocol.connection_made(Written())
    protocol.data_received(b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody")
    async with asyncio.timeout(5):
        await over.wait()
    assert taken == [b"body"]
    assert budget.used == 0
    protocol.connection_lost(None)
    await server.shutdown(0)
