"""An engine for chats that costs little: it sends tokens at a fixed pace, and notes its clients.

``python -m benchmarks.chat_engine`` prints the address that it listens on. A chat completion gets
``--tokens`` tokens, ``--pace`` ms apart. The first token is the time in µs for which the engine
held the request. ``GET /cancelled`` lists the replies that their clients cut off.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import time
from dataclasses import dataclass, field
from typing import Final, cast

import httptools
import uvloop

#: The beginning of a user's turn: its number, by which its reply is known.
_NUMBER: Final = re.compile(rb"#(\d+) ")

_STREAM_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_MICRO: Final = 1e6


@dataclass
class Ledger:
    """The pace of the replies, and the fate of each.

    Attributes:
        pace: seconds between two tokens.
        open: replies under way.
        cancelled: when each cut reply was noticed, in seconds of the monotonic clock.
    """

    tokens: int
    pace: float
    open: int = 0
    finished: int = 0
    cancelled: dict[int, float] = field(default_factory=dict)


class Replies(asyncio.Protocol):
    """One connection; requests come one after the other."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._parser = httptools.HttpRequestParser(self)
        self._path = b""
        self._body = bytearray()
        self._number: int | None = None  # of the reply under way

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._path = url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        received = time.perf_counter()
        body = bytes(self._body)
        self._body.clear()
        if self._path == b"/v1/chat/completions":
            self._ledger.open += 1
            self._number = int(_NUMBER.findall(body)[-1])
            self._transport.write(_STREAM_HEAD)
            self._loop.call_later(self._ledger.pace, self._first, received)
        else:
            known = self._ledger
            found = {"open": known.open, "finished": known.finished, "cancelled": known.cancelled}
            text = json.dumps(found if self._path == b"/cancelled" else {}).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n"
            self._transport.write(head.encode() + text)

    def _first(self, received: float) -> None:
        self._send(f"{round((time.perf_counter() - received) * _MICRO)}", 1)

    def _send(self, token: str, count: int) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(
            _event(_chunk(token, "stop" if count == self._ledger.tokens else None))
        )
        if count == self._ledger.tokens:
            self._transport.write(_event(b"[DONE]") + b"0\r\n\r\n")
            self._number = None
            self._ledger.open -= 1
            self._ledger.finished += 1
        else:
            self._loop.call_later(self._ledger.pace, self._send, f" token{count}", count + 1)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._number is not None:
            self._ledger.open -= 1
            self._ledger.cancelled[self._number] = time.monotonic()


def _chunk(token: str, finish: str | None) -> bytes:
    choice = {"index": 0, "delta": {"content": token}, "finish_reason": finish}
    about = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "stub"}
    return json.dumps({**about, "choices": [choice]}).encode()


def _event(data: bytes) -> bytes:
    event = b"data: " + data + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(event), event)


async def _serve(ledger: Ledger) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Replies(ledger), "127.0.0.1", 0, backlog=4096)
    host, port = server.sockets[0].getsockname()
    print(f"listening on http://{host}:{port}", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser("benchmarks.chat_engine", description=__doc__)
    parser.add_argument("--tokens", type=int, default=20, help="of each reply (20)")
    parser.add_argument("--pace", type=float, default=25.0, help="ms between two tokens (25)")
    args = parser.parse_args()
    uvloop.run(_serve(Ledger(args.tokens, args.pace / 1e3)))


if __name__ == "__main__":
    main()
