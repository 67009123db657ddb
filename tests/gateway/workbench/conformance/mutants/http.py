"""Mutants that answer HTTP wrongly (clauses 1.1-2, 1.1-3 and 1.1-5)."""

from __future__ import annotations

import asyncio
import os

from tests.gateway.workbench.conformance.mutants.base import Container, Request
from tests.gateway.workbench.conformance.mutants.registry import mutant

KNOWN_HEADERS = {
    *("host", "connection", "content-length", "content-type", "transfer-encoding", "upgrade"),
    *("accept", "sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol"),
}


@mutant("ping.post")
class PingByGetOnly(Container):
    """Answers 404 to POST /ping."""

    async def ping(self, request: Request, writer: asyncio.StreamWriter) -> None:
        await self.answer(writer, 200 if request.method == "GET" else 404)


@mutant("ping.get")
class PingByPostOnly(Container):
    """Answers 405 to GET /ping."""

    async def ping(self, request: Request, writer: asyncio.StreamWriter) -> None:
        await self.answer(writer, 200 if request.method == "POST" else 405)


@mutant("ping.empty")
class PingWithBody(Container):
    """Answers /ping with a body."""

    async def ping(self, request: Request, writer: asyncio.StreamWriter) -> None:
        await self.answer(writer, 200, b'{"status": "healthy"}')


@mutant("ping.quick")
class SlowPing(Container):
    """Answers /ping after 3 seconds."""

    async def ping(self, request: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3)
        await super().ping(request, writer)


@mutant("startup.ready")
class PingNoContent(Container):
    """Answers /ping with 204."""

    async def ping(self, request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")


@mutant("invocations.post")
class NoInvocations(Container):
    """Answers 404 to /invocations."""

    async def invocations(self, request: Request, writer: asyncio.StreamWriter) -> None:
        await self.answer(writer, 404)


@mutant("invocations.post")
class InvocationsByGet(Container):
    """Answers 405 to POST /invocations."""

    async def invocations(self, request: Request, writer: asyncio.StreamWriter) -> None:
        await self.answer(writer, 200 if request.method == "GET" else 405)


@mutant("invocations.post")
class NeverEndsAnswer(Container):
    """Leaves out the last chunk of an answer."""

    async def invocations(self, request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        async for piece in self.pieces(request.body):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await writer.drain()
        raise ConnectionResetError("as if it had crashed")


@mutant("invocations.chunked")
class WholeAnswers(Container):
    """Answers /invocations with one body of known length."""

    async def invocations(self, request: Request, writer: asyncio.StreamWriter) -> None:
        await self.answer(writer, 200 if request.method == "POST" else 405, request.body)


@mutant("http.headers")
class DiesOfHeader(Container):
    """Ends with a request whose headers it does not know."""

    async def read_request(self, reader: asyncio.StreamReader) -> Request:
        request = await super().read_request(reader)
        if set(request.headers) - KNOWN_HEADERS:
            os._exit(3)
        return request


@mutant("http.headers")
class RefusesHeaders(Container):
    """Answers 400 to a request whose headers it does not know."""

    async def serve(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if set(request.headers) - KNOWN_HEADERS:
            await self.answer(writer, 400, b"unknown headers")
            return False
        return await super().serve(request, reader, writer)


@mutant("http.headers")
class ShortHeads(Container):
    """Takes a head of 1 KiB at most."""

    async def serve(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if sum(map(len, request.headers.values())) > 1 << 10:
            await self.answer(writer, 431)
            return False
        return await super().serve(request, reader, writer)
