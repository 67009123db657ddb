"""A request of HTTP/1.1 as an exchange: what goes to the client in which write."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.serving.http1 import Http1Server


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
    ("waits", "writes"),
    [
        (False, [b"HTTP/1.1 200 OK\r\n...\r\n\r\n5\r\nfirst\r\n", b"0\r\n\r\n"]),
        (True, [b"HTTP/1.1 200 OK\r\n...\r\n\r\n", b"5\r\nfirst\r\n", b"0\r\n\r\n"]),
    ],
    ids=["with its first piece", "by itself where that is not there yet"],
)
async def test_a_head_is_written_at_once(waits, writes):
    over = asyncio.Event()

    async def answer(exchange):
        await exchange.begin(200)
        if waits:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
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
