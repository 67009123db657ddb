"""A container that keeps the contract: its HTTP side, on asyncio alone.

Every behaviour is a method, for a mutant to do wrong.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import ClassVar, NamedTuple

from tests.gateway.workbench.conformance.mutants.base_stream import Stream

#: A head and a body may have so many bytes, and a stop takes so many seconds at most.
MAX_HEAD = 64 << 10
MAX_BODY = 8 << 20
GRACE = 2.0

STREAM_PATHS = ("/invocations-bidirectional-stream", "/v1/listen")
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 §1.3


class Request(NamedTuple):
    """What was asked for; names of headers are in lower case."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


class Container:
    """The server.

    Args:
        port: where the platform wants it to listen.
        model_dir: where its artifacts are.
    """

    stream: ClassVar[type[Stream]] = Stream

    def __init__(self, port: int, model_dir: str) -> None:
        self.port = port
        self.model_dir = model_dir
        self.streams: set[Stream] = set()
        self.stopped = asyncio.Event()

    # --- Its life ---------------------------------------------------------------------------------

    async def run(self) -> int:
        """Serve until SIGTERM; returns the exit status."""
        self.heed_signals()
        server = await self.listen()
        await self.stopped.wait()
        server.close()
        await self.leave()
        return 0

    def heed_signals(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.stopped.set)

    async def listen(self) -> asyncio.Server:
        return await asyncio.start_server(self.connected, "0.0.0.0", self.port, limit=MAX_HEAD)

    async def leave(self) -> None:
        """Tell those who talk, and give them time to answer."""
        for stream in set(self.streams):
            with suppress(ConnectionError):  # its client has gone, and it has not seen that yet
                await stream.send_close(1001, "the container stops")
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                while self.streams:
                    await next(iter(self.streams)).ended.wait()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a connection's requests, one after the other."""
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self.serve(await self.read_request(reader), reader, writer):
                    pass
        finally:
            writer.close()  # before 3.11.4 asyncio leaves it open where this raises

    async def serve(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer one request; whether another one may follow."""
        if "upgrade" in request.headers.get("connection", "").lower():
            await self.upgrade(request, reader, writer)
            return False
        match request.path:
            case "/ping":
                await self.ping(request, writer)
            case "/invocations":
                await self.invocations(request, writer)
            case _:
                await self.answer(writer, 404, b"no such path")
        return request.headers.get("connection", "").lower() != "close"

    # --- HTTP -------------------------------------------------------------------------------------

    async def read_request(self, reader: asyncio.StreamReader) -> Request:
        head = (await self.read_head(reader)).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        method, target, _ = first.split(" ")
        path, _, query = target.partition("?")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[self.field_name(name.strip())] = value.strip()
        body = await self.read_body(reader, headers)
        return Request(method, path, query, headers, body)

    async def read_head(self, reader: asyncio.StreamReader) -> bytes:
        return await reader.readuntil(b"\r\n\r\n")

    def field_name(self, name: str) -> str:
        """The name by which a header is known, however it is spelled (RFC 9110 §5.1)."""
        return name.lower()

    async def read_body(self, reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
        if "chunked" not in headers.get("transfer-encoding", ""):
            return await reader.readexactly(min(int(headers.get("content-length", 0)), MAX_BODY))
        body = b""
        while size := int((await reader.readline()).split(b";")[0], 16):
            body += (await reader.readexactly(size + 2))[:-2]
            if len(body) > MAX_BODY:
                raise ConnectionError("the body is too large")
        await reader.readuntil(b"\r\n")
        return body

    async def answer(self, writer: asyncio.StreamWriter, status: int, body: bytes = b"") -> None:
        """Say a status and a body of known length."""
        writer.write(f"HTTP/1.1 {status} .\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()

    async def ping(self, request: Request, writer: asyncio.StreamWriter) -> None:
        if request.method in ("GET", "POST"):
            await self.answer(writer, 200)
        else:
            await self.answer(writer, 405)

    async def invocations(self, request: Request, writer: asyncio.StreamWriter) -> None:
        """Say the body again, piece by piece as it is made."""
        if request.method != "POST":
            await self.answer(writer, 405)
            return
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        async for piece in self.pieces(request.body):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def pieces(self, body: bytes) -> AsyncIterator[bytes]:
        size = max(1, len(body) // 4)
        for at in range(0, len(body), size):
            yield body[at : at + size]
            await asyncio.sleep(0)

    # --- The upgrade ------------------------------------------------------------------------------

    def admits(self, request: Request) -> int:
        """0 for a stream that is welcome, else the status of the refusal."""
        if request.path not in STREAM_PATHS:
            return 404
        if "sec-websocket-key" not in request.headers:
            return 400
        if request.headers.get("sec-websocket-version") != "13":
            return 426
        return 0

    async def upgrade(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        refusal = self.admits(request)
        if refusal:
            await self.answer(writer, refusal, b"no stream here")
            return
        accept = self.accept_key(request.headers["sec-websocket-key"])
        lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Accept: {accept}", *self.negotiated(request)]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        stream = self.stream(reader, writer)
        self.streams.add(stream)
        try:
            await self.converse(stream, request)
        finally:
            self.streams.discard(stream)

    def accept_key(self, key: str) -> str:
        return base64.b64encode(hashlib.sha1(key.encode() + GUID).digest()).decode()

    def negotiated(self, request: Request) -> list[str]:
        """Further lines of the 101: no extension, no subprotocol."""
        return []

    async def converse(self, stream: Stream, request: Request) -> None:
        await stream.run()


def serve(container: type[Container]) -> int:
    """Run it where the platform says (clause 1.1-2); returns the exit status."""
    port = int(os.environ.get("SAGEMAKER_BIND_TO_PORT", "8080"))
    model_dir = os.environ.get("SM_MODEL_DIR", "/opt/ml/model")

    async def run() -> int:
        return await container(port, model_dir).run()

    return asyncio.run(run())
