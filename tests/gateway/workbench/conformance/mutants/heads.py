"""Mutants that are particular about how a head is written (clauses 1.1-2, 1.1-4 and 1.6-1)."""

from __future__ import annotations

import asyncio
import urllib.parse

from tests.gateway.workbench.conformance.mutants.base import Container, Request
from tests.gateway.workbench.conformance.mutants.base_stream import Stream
from tests.gateway.workbench.conformance.mutants.registry import mutant


@mutant("upgrade.names")
class WantsCapitals(Container):
    """Knows Sec-WebSocket-Key by this spelling alone."""

    def field_name(self, name: str) -> str:
        return "unknown" if name == "sec-websocket-key" else super().field_name(name)


@mutant("upgrade.names")
class WantsNoCapitals(Container):
    """Knows no header whose name is all in capitals."""

    def field_name(self, name: str) -> str:
        return "unknown" if name.isupper() else super().field_name(name)


@mutant("invocations.names")
class WantsCapitalLength(Container):
    """Knows a body's length by Content-Length, spelled so, alone."""

    def field_name(self, name: str) -> str:
        return "unknown" if name == "content-length" else super().field_name(name)


@mutant("upgrade.tokens")
class OneToken(Container):
    """Takes a stream only if Connection says Upgrade and nothing else."""

    async def serve(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if "," in request.headers.get("connection", ""):
            await self.answer(writer, 400, b"keep-alive or Upgrade?")
            return False
        return await super().serve(request, reader, writer)


@mutant("upgrade.tokens")
class SmallToken(Container):
    """Knows the protocol websocket, and no WebSocket."""

    def admits(self, request: Request) -> int:
        known = request.headers.get("upgrade") == "websocket"
        return super().admits(request) if known else 400


@mutant("upgrade.long_query")
class ShortTargets(Container):
    """Takes a request's target of 1 KiB at most."""

    def admits(self, request: Request) -> int:
        return 414 if len(request.path + request.query) > 1 << 10 else super().admits(request)


@mutant("upgrade.encoded_query")
class NoEscapes(Container):
    """Refuses a query that has something percent-encoded."""

    def admits(self, request: Request) -> int:
        return 400 if "%" in request.query else super().admits(request)


@mutant("upgrade.encoded_query")
class QueryAsText(Container):
    """Takes each query for UTF-8, once its stream has begun."""

    async def converse(self, stream: Stream, request: Request) -> None:
        try:
            urllib.parse.unquote(request.query, errors="strict")
        except UnicodeDecodeError:
            await stream.send_close(1011, "no such query")
        await super().converse(stream, request)


@mutant("upgrade.pieces")
class OneRead(Container):
    """Takes what it reads first for the whole head."""

    async def read_head(self, reader: asyncio.StreamReader) -> bytes:
        first = await reader.read(1)
        if first and b"\r\n\r\n" not in reader._buffer:
            raise ConnectionResetError("half a head")
        return first + await super().read_head(reader)
