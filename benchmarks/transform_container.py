"""A container that answers a request with its body, or a chunked one with the body's length.

``python -m benchmarks.transform_container`` prints the address that it listens on.
"""

from __future__ import annotations

import asyncio
from typing import cast

import httptools
import uvloop


class Echo(asyncio.Protocol):
    """One connection; requests come one after the other."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._pieces: list[bytes] = []
        self._length = 0
        self._chunked = False
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._chunked |= name.lower() == b"transfer-encoding"

    def on_body(self, data: bytes) -> None:
        self._length += len(data)
        if not self._chunked:
            self._pieces.append(data)

    def on_message_complete(self) -> None:
        if self._parser.get_method() == b"GET":
            self._transport.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        else:
            body = b"%d" % self._length if self._chunked else b"".join(self._pieces)
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
            self._transport.write(head + body)
        self._pieces, self._length, self._chunked = [], 0, False


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"listening on http://{host}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
