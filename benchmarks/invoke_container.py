"""A container that answers each request with its own body, and costs the machine little.

``python -m benchmarks.invoke_container`` prints the address that it listens on.
"""

from __future__ import annotations

import asyncio
from typing import cast

import uvloop

_END = b"\r\n\r\n"
_LENGTH = b"content-length:"


class Echo(asyncio.Protocol):
    """One connection; requests have a length and come one after the other."""

    def __init__(self) -> None:
        self._data = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, end, rest = self._data.partition(_END)
        if not end:
            return
        length = int(head.lower().partition(_LENGTH)[2].split(b"\r\n")[0] or b"0")
        if len(rest) >= length:
            self._data = rest[length:]
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                % (length, rest[:length])
            )


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"listening on http://{host}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
