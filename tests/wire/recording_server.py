"""The gateway's server of HTTP/1.1 on a real socket, before a dispatcher that records requests."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Self

from partway.gateway.http.connection_admission import Visitor, uncounted
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.http1.server import Http1Handler, Http1Server
from partway.protocol.connections.http1_connection import RequestConnection
from partway.protocol.errors import ApiError, ClientLeft
from tests.wire.llhttp_alone import End, Outcome, Whole

#: Seconds for one case; nothing in a case waits for time to pass.
PATIENCE = 60.0

#: A step of the server takes a turn or two of the loop. After so many without news nothing follows.
QUIET_TURNS = 20

#: Of a body in these cases.
MOST = 1 << 20

_STATUS = re.compile(rb"HTTP/1\.1 ([2-5]\d\d) ")


class _Counting(RequestConnection):
    """A connection that counts what the loop has handed over."""

    __slots__ = ("arrived",)

    def __init__(self, server: RecordingServer, handler: Http1Handler) -> None:
        super().__init__(server, handler, handler)
        self.arrived = 0

    def data_received(self, data: bytes) -> None:
        self.arrived += len(data)
        super().data_received(data)


class RecordingServer(Http1Server):
    """Answers each request that comes to its end with 200.

    Attributes:
        requests: those of the last connection.
        connection: the last one.
        port: where it listens, within ``async with``.
    """

    def __init__(self) -> None:
        super().__init__(self._record)
        self.requests: list[Whole] = []
        self.connection: _Counting | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self.protocol, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._listener.close()
        await self.shutdown(0.1)

    def protocol(self, visitor: Visitor | None = None) -> asyncio.Protocol:
        self.requests = []
        self.connection = _Counting(self, Http1Handler(self._record, visitor or uncounted()))
        return self.connection

    @property
    def arrived(self) -> int:
        """Bytes of the last connection that have arrived."""
        return self.connection.arrived if self.connection is not None else 0

    async def _record(self, exchange: Exchange) -> None:
        requests = self.requests
        try:
            body = await exchange.body(MOST)
        except ApiError as error:
            exchange.fail(error)
            return
        except ClientLeft:
            return  # the case ends within the body
        target = exchange.path + (f"?{exchange.query}" if exchange.query else "")
        requests.append(
            Whole(exchange.method.encode(), target.encode("utf-8", "surrogateescape"), body)
        )
        exchange.respond(200)


class _Client(asyncio.Protocol):
    def __init__(self) -> None:
        self.received = b""
        self.ended = False

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> None:
        self.ended = True

    def connection_lost(self, exc: BaseException | None) -> None:
        self.ended = True


async def ours(server: RecordingServer, pieces: Iterable[bytes]) -> Outcome:
    """Our server's outcome for bytes that come in these pieces, each in a read of its own."""
    server.connection = None
    loop = asyncio.get_running_loop()
    transport, client = await loop.create_connection(_Client, "127.0.0.1", server.port)
    try:
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.timeout(PATIENCE):
            await _until(lambda: server.connection is not None)
            sent = 0
            for piece in pieces:
                transport.write(piece)
                sent += len(piece)
                await _until(lambda: client.ended or server.arrived >= sent)  # noqa: B023 awaited
                if client.ended:
                    break
            await _quiet(server, client)
        statuses = [int(each) for each in _STATUS.findall(client.received)]
        end = End.OPEN
        if client.ended:
            end = End.REFUSED if any(status >= 400 for status in statuses) else End.CLOSED
        return Outcome(tuple(server.requests), end)
    finally:
        transport.abort()


async def _until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until a condition holds: server and client are both on it."""
    while not condition():  # noqa: ASYNC110 each turn of the loop may change it
        await asyncio.sleep(0)


async def _quiet(server: RecordingServer, client: _Client) -> None:
    """Wait until the server has done all that it can do with what it has."""
    turns, before = 0, None
    while turns < QUIET_TURNS:
        await asyncio.sleep(0)
        now = len(server.requests), len(client.received), client.ended
        turns = turns + 1 if now == before else 0
        before = now


def cut(data: bytes, at: Sequence[int]) -> list[bytes]:
    """The data in pieces that end at these places."""
    edges = [0, *sorted(at), len(data)]
    return [piece for a, b in pairwise(edges) if (piece := data[a:b])]
