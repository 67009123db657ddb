"""What the container's tests talk with: a server in this process, and a client that sends bytes."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from multidict import CIMultiDict, CIMultiDictProxy, MultiDict

from partway.container.hosting.asgi import AppServer
from partway.container.model import Answer, Model, Opening, Request
from partway.container.models.echo import Echo
from partway.container.server import ModelServer
from partway.container.shutdown import ShutdownTimes
from partway.container.stream import Stream
from tests.frame_factory import KEY, TEXT, RawFrame, close, frame, read_frame

STREAM = "/invocations-bidirectional-stream"

#: Seconds for what is due at once, on a machine that has other things to do too. What would come by
#: a limit of the container's own, if it did not come at once, takes longer.
PATIENCE = 20.0

QUICK = ShutdownTimes(grace=0.2, spread=0.1, hard=0.2)


@dataclass(eq=False)
class ScriptedModel(Model):
    """A model made of the functions a test gives it."""

    on_stream: Callable[[Stream], Awaitable[None]] = Echo().stream
    on_invoke: Callable[[Request], Awaitable[Answer]] = Echo().invoke
    streams: list[Stream] = field(default_factory=list)

    async def stream(self, stream: Stream) -> None:
        self.streams.append(stream)
        await self.on_stream(stream)

    async def invoke(self, request: Request) -> Answer:
        return await self.on_invoke(request)


@asynccontextmanager
async def serving(
    model: Model | None = None, times: ShutdownTimes = QUICK
) -> AsyncIterator[tuple[ModelServer, int]]:
    server = ModelServer(model or Echo(), times=times)
    port = await server.start()
    stopped = asyncio.create_task(server.stopped())
    try:
        await server.load()
        yield server, port
    finally:
        server.stop()
        server.stop()
        await stopped


def opening(path: str = "x", **query: str) -> Opening:
    return Opening("test", path, MultiDict(query), CIMultiDictProxy(CIMultiDict()))


class RawClient:
    """A socket, and the frames that come out of it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._read = b""

    @property
    def port(self) -> int:
        port: int = self.writer.get_extra_info("peername")[1]
        return port

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def send_frame(self, opcode: int, payload: bytes = b"", *, fin: bool = True) -> None:
        self.send(frame(opcode, payload, fin=fin, mask=KEY))

    def send_close(self, code: int | None = None, reason: bytes = b"") -> None:
        self.send(close(code, reason, mask=KEY))

    async def head(self) -> bytes:
        return await self.reader.readuntil(b"\r\n\r\n")

    async def frame(self) -> RawFrame:
        while (found := read_frame(self._read)) is None:
            more = await self.reader.read(1 << 16)
            if not more:
                raise EOFError(f"{len(self._read)} bytes of a frame: {self._read[:20]!r}")
            self._read += more
        whole, self._read = found
        return whole

    async def frames(self, count: int) -> list[tuple[int, bytes, bool]]:
        frames = [await self.frame() for _ in range(count)]
        return [(each.opcode, each.payload, each.fin) for each in frames]

    async def eof(self) -> bytes:
        """What comes before the end of the connection."""
        return self._read + await self.reader.read()

    async def rest(self) -> bytes:
        """What comes before the end of the connection or its reset."""
        rest = self._read
        with suppress(ConnectionError):
            while more := await self.reader.read(1 << 16):
                rest += more
        return rest

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):  # an end is all that was asked for
            await self.writer.wait_closed()


@asynccontextmanager
async def raw_client(port: int, *, receive_buffer: int | None = None) -> AsyncIterator[RawClient]:
    sock = socket.socket(proto=socket.IPPROTO_TCP)  # asyncio sets TCP_NODELAY on these alone
    sock.setblocking(False)
    if receive_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=sock)
    client = RawClient(reader, writer)
    try:
        yield client
    finally:
        await client.close()


async def open_stream(client: RawClient) -> None:
    """A stream that is open has echoed a message."""
    client.send_frame(TEXT, b"x")
    assert await client.frames(1) == [(TEXT, b"x", True)]


#: For :func:`closed_one_after_the_other`: the second of two streams is told 0.2 s after the first.
IN_TURN = ShutdownTimes(grace=0.1, spread=0.4, hard=50)


async def closed_one_after_the_other(server: ModelServer | AppServer, port: int) -> None:
    """A server with the times of ``IN_TURN`` is stopped, and closes two streams in their turn."""
    async with (
        asyncio.timeout(PATIENCE),
        raw_stream(port) as first,
        raw_stream(port) as second,
    ):
        for client in (first, second):
            await open_stream(client)
        began = time.monotonic()
        server.stop()

        async def closed(client: RawClient) -> float:
            frame = await client.frame()
            assert (frame.close_code, frame.close_reason) == (1001, "the container is stopping")
            client.send_close(1001)
            assert await client.eof() == b""
            return time.monotonic() - began

        # Each has a time before which it is not told; a busy machine tells both late.
        early, late = sorted(await asyncio.gather(closed(first), closed(second)))
        assert early >= 0.09  # the loop's clock ticks in milliseconds
        assert late >= 0.29


def upgrade_request(path: str = STREAM, **changes: str | None) -> bytes:
    """An upgrade; a keyword changes a header (``_`` stands for ``-``), None leaves it out."""
    headers: dict[str, str | None] = {
        "Host": "container",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",  # RFC 6455 §1.3's example
        "Sec-WebSocket-Version": "13",
    }
    headers |= {name.replace("_", "-"): value for name, value in changes.items()}
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""]).encode()


@asynccontextmanager
async def raw_stream(port: int, *, receive_buffer: int | None = None) -> AsyncIterator[RawClient]:
    """A raw client whose upgrade has been granted."""
    async with raw_client(port, receive_buffer=receive_buffer) as client:
        client.send(upgrade_request())
        head = await client.head()
        assert head.startswith(b"HTTP/1.1 101 "), head
        yield client


async def until(condition: Callable[[], object]) -> None:
    """Give the others turns until something is so."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 (what it waits for has no event)
            await asyncio.sleep(0)
