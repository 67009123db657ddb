"""A container that answers each request with 200 tokens, a chunk each, and costs little itself.

``python -m benchmarks.token_container`` prints the address that it listens on.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

import uvloop

#: The number of tokens, and the seconds between two; the first comes with the head.
COUNT: Final = 200
_PAUSE: Final = 0.005

_END = b"\r\n\r\n"
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"


def token(number: int) -> bytes:
    """Make one token; all are different."""
    return b" token%d" % number


def _chunk(number: int) -> bytes:
    data = token(number)
    return b"%x\r\n%b\r\n" % (len(data), data)


class Tokens(asyncio.Protocol):
    """One connection; requests come one after the other, each in one piece."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if _END in data:
            self._transport.write(_HEAD + _chunk(0))
            self._loop.call_later(_PAUSE, self._go_on, 1)

    def _go_on(self, number: int) -> None:
        if self._transport.is_closing():
            return
        if number == COUNT:
            self._transport.write(b"0\r\n\r\n")
            return
        self._transport.write(_chunk(number))
        self._loop.call_later(_PAUSE, self._go_on, number + 1)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Tokens, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"listening on http://{host}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
