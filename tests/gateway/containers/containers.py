"""A container of the standard library's, every byte of whose answers is its test's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from partway.gateway.containers.container_requests import (
    ContainerRequest,
    Destination,
    header_lines,
)
from partway.gateway.network.dialling import Address

HOST = "127.0.0.1"

#: On a busy machine a connection may be accepted late.
PATIENCE = 20.0

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Call:
    """One connection of the container's.

    Attributes:
        number: of the connection, from 0 on.
        heads: of the requests that came on it.
        chunks: of their bodies that came in chunks; the last one is empty.
        ended: set once the gateway has ended its side.
    """

    def __init__(self, number, reader, writer) -> None:
        self.number = number
        self.reader = reader
        self.writer = writer
        self.heads: list[bytes] = []
        self.chunks: list[bytes] = []
        self.ended = asyncio.Event()

    async def head(self) -> bytes:
        """The next request's head."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        return head

    async def request(self) -> bytes:
        return await self.body(await self.head())

    async def body(self, head: bytes) -> bytes:
        if b"Transfer-Encoding: chunked" not in head:
            length = head.partition(b"\r\nContent-Length: ")[2].partition(b"\r\n")[0]
            return await self.reader.readexactly(int(length))
        body = b""
        while True:
            line = await self.reader.readuntil(b"\r\n")
            data = await self.reader.readexactly(int(line, 16) + 2)
            assert data.endswith(b"\r\n")
            self.chunks.append(data[:-2])
            if data == b"\r\n":
                return body
            body += data[:-2]

    def say(self, *data: bytes) -> None:
        self.writer.write(b"".join(data))

    async def end(self) -> None:
        """Wait until the gateway has ended the connection."""
        try:
            while await self.reader.read(65_536):
                pass
        except ConnectionError:
            pass
        self.ended.set()


class ScriptedContainer:
    """A server on loopback that does with each connection what a test says."""

    def __init__(self, script: Callable[[Call], Awaitable[None]], tls=None) -> None:
        self.calls: list[Call] = []
        self._script = script
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, HOST, 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        call = Call(len(self.calls), reader, writer)
        self.calls.append(call)
        try:
            await self._script(call)
        except (EOFError, ConnectionError, asyncio.CancelledError):
            call.ended.set()
        finally:
            writer.transport.abort() if task.cancelling() else writer.close()
            self._tasks.discard(task)

    @property
    def destination(self) -> Destination:
        return Destination(Address(HOST, self.port), connect_timeout=PATIENCE)


def asked(body=b"hello", *headers, length=None) -> ContainerRequest:
    return ContainerRequest("/invocations", header_lines(headers), body, length)


async def pieces_of(body, *, after=None):
    """A body that comes bit by bit; behind it an error, or a wait."""
    for piece in body:
        yield piece
    if isinstance(after, BaseException):
        raise after
    if after is not None:
        await after.wait()


async def whole(answer) -> bytes:
    await answer.head()
    body = b""
    while data := await answer.read():
        body += data
    return body
