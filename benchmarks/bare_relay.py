"""The least relay of HTTP/1.1 in Python: it parses both heads, and passes the bytes on.

``python -m benchmarks.bare_relay http://HOST:PORT`` prints the address that it listens on. It has
no routes, limits, counts or timeouts, and changes no head. A gateway in Python that asks llhttp for
each head costs more than this.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast
from urllib.parse import urlsplit

import httptools
import uvloop


class Side(asyncio.Protocol):
    """One connection; its bytes go to the other one at once."""

    def __init__(
        self, kind: type[httptools.HttpRequestParser | httptools.HttpResponseParser]
    ) -> None:
        self.other: Side | None = None
        self.transport: asyncio.Transport
        self.unsent = b""
        self._headers: dict[bytes, bytes] = {}
        self._parser = kind(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)
        if self.other is None:
            self.unsent += data
        else:
            self.other.transport.write(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_message_complete(self) -> None:
        self._headers = {}

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            self.other.transport.close()


class Client(Side):
    """A client's connection, which has one with the container."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(httptools.HttpRequestParser)
        self._dialling = asyncio.get_running_loop().create_task(self._dial(host, port))

    async def _dial(self, host: str, port: int) -> None:
        container = Side(httptools.HttpResponseParser)
        container.other = self
        await asyncio.get_running_loop().create_connection(lambda: container, host, port)
        container.transport.write(self.unsent)
        self.other = container


async def main(host: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Client(host, port), "127.0.0.1", 0)
    own_host, own_port = server.sockets[0].getsockname()
    print(f"listening on http://{own_host}:{own_port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    there = urlsplit(sys.argv[1])
    uvloop.run(main(there.hostname or "", there.port or 80))
