"""The load on HTTP/2: streams that keep a few messages in flight, and check the replies.

``python -m benchmarks.http2_load URL`` is :mod:`benchmarks.load` on frames made by hand. An HTTP/2
library would cost this process more than the measured one spends. Each message is one DATA frame.
Replies are compared as a stream of bytes, however the server cuts it.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import ssl
import struct
from collections import deque
from typing import cast
from urllib.parse import urlsplit

import hpack
import uvloop

from benchmarks.http2_wires import WIRES, Wire
from benchmarks.load import Counts, LoadError, Messages, add_options, count_round_trips

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# Types, flags and settings (RFC 9113 §6, RFC 8441 §3).
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_ACK = _END_STREAM = 0x1
_END_HEADERS = 0x4
_PADDED_OR_PRIORITY = 0x28
_ENABLE_PUSH, _INITIAL_WINDOW_SIZE = 0x2, 0x4

_HEADER = struct.Struct("!HBBBI")
_DEFAULT_WINDOW = 65_535

#: Windows of the server, per stream and per connection; given back by halves. They are wide enough
#: to leave flow control out, as it is for small messages in real clients.
_WINDOW = 1 << 20
_CONNECTION_WINDOW = 16 << 20

#: Longest wait for a response's head.
_OPEN_TIMEOUT = 10.0


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Make a frame's bytes (RFC 9113 §4.1)."""
    size = len(payload)
    return _HEADER.pack(size >> 8, size & 0xFF, kind, flags, stream_id) + payload


class Connection(asyncio.Protocol):
    """One connection; the frames caused by one read are written at once."""

    def __init__(self, failed: asyncio.Future[None]) -> None:
        self.failed = failed
        self.streams: dict[int, Stream] = {}
        self.ready = asyncio.get_running_loop().create_future()
        self.initial_window = _DEFAULT_WINDOW
        self.ended = False
        self._ids = itertools.count(1, 2)
        self._window = _DEFAULT_WINDOW
        self._out: list[bytes] = []
        self._waiting: deque[tuple[Stream, bytes]] = deque()
        self._rest = b""
        self._owed = 0
        self._encoder = hpack.Encoder()
        self._decoder = hpack.Decoder()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        settings = struct.pack("!HIHI", _ENABLE_PUSH, 0, _INITIAL_WINDOW_SIZE, _WINDOW)
        self._out += [_PREFACE, frame(_SETTINGS, 0, 0, settings)]
        self.give_credit(0, _CONNECTION_WINDOW - _DEFAULT_WINDOW)
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail("the connection ended")

    def open(self, wire: Wire) -> Stream:
        stream = Stream(self, next(self._ids), wire)
        self.streams[stream.stream_id] = stream
        block = self._encoder.encode(wire.head())
        self._out.append(frame(_HEADERS, _END_HEADERS, stream.stream_id, block))
        self.flush()
        return stream

    def send_data(self, stream: Stream, data: bytes) -> None:
        """Send a message as soon as both windows have room for it; :meth:`flush` follows."""
        if self._waiting or len(data) > min(self._window, stream.window):
            self._waiting.append((stream, data))
            return
        self._window -= len(data)
        stream.window -= len(data)
        self._out.append(frame(_DATA, 0, stream.stream_id, data))

    def give_credit(self, stream_id: int, size: int) -> None:
        """Let the server send more; :meth:`flush` follows."""
        self._out.append(frame(_WINDOW_UPDATE, 0, stream_id, size.to_bytes(4, "big")))

    def flush(self) -> None:
        if self._out:
            self._transport.write(b"".join(self._out))
            self._out.clear()

    def fail(self, what: str) -> None:
        """End the run, unless it is over."""
        if not self.ended and not self.failed.done():
            self.failed.set_exception(LoadError(what))

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        at, there = 0, len(data)
        while at + 9 <= there:
            high, low, kind, flags, stream_id = _HEADER.unpack_from(data, at)
            start = at + 9
            end = start + (high << 8 | low)
            if end > there:
                break
            self._frame(kind, flags, stream_id, data[start:end])
            at = end
        self._rest = data[at:]
        self.flush()

    def _frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if self.ended:
            return
        if kind == _DATA and not flags:
            self._owed += len(payload)
            if self._owed >= _CONNECTION_WINDOW // 2:
                self.give_credit(0, self._owed)
                self._owed = 0
            self.streams[stream_id].data_received(payload)
        elif kind == _WINDOW_UPDATE:
            self._window_opened(stream_id, int.from_bytes(payload, "big"))
        elif kind == _PING:
            if not flags & _ACK:
                self._out.append(frame(_PING, _ACK, 0, payload))
        elif kind == _SETTINGS:
            if not flags & _ACK:
                self._settings(payload)
        elif kind == _HEADERS and flags & _END_HEADERS and not flags & _PADDED_OR_PRIORITY:
            status = dict(self._decoder.decode(payload)).get(":status", "")
            if status != "200" or flags & _END_STREAM:
                self.fail(f"a stream was answered with status {status}")
            else:
                self.streams[stream_id].answered.set_result(None)
        elif kind in (_DATA, _HEADERS, _RST_STREAM, _GOAWAY):
            self.fail(f"the server sent a frame of type {kind}, flags {flags:#x}: {payload!r}")

    def _settings(self, payload: bytes) -> None:
        for key, value in struct.iter_unpack("!HI", payload):
            if key == _INITIAL_WINDOW_SIZE:
                for stream in self.streams.values():
                    stream.window += value - self.initial_window
                self.initial_window = value
        self._out.append(frame(_SETTINGS, _ACK, 0))
        if not self.ready.done():
            self.ready.set_result(None)

    def _window_opened(self, stream_id: int, size: int) -> None:
        if stream_id:
            self.streams[stream_id].window += size
        else:
            self._window += size
        waiting, self._waiting = self._waiting, deque()
        for stream, data in waiting:
            self.send_data(stream, data)


class Stream:
    """One client: once it is running, it sends the next message for each reply."""

    def __init__(self, connection: Connection, stream_id: int, wire: Wire) -> None:
        self.stream_id = stream_id
        self.window = connection.initial_window
        self.answered: asyncio.Future[None] = connection.failed.get_loop().create_future()
        self.received = 0
        self.running = False
        self._connection = connection
        self._wire = wire
        self._sent = 0
        self._expected: deque[bytes] = deque()
        self._held = b""
        self._owed = 0

    def send(self, count: int = 1) -> None:
        self._send(count)
        self._connection.flush()

    def end(self) -> None:
        self._connection.ended = True

    def _send(self, count: int) -> None:
        for _ in range(count):
            message, reply = self._wire.message(self._sent)
            self._sent += 1
            self._expected.append(reply)
            self._connection.send_data(self, message)

    def data_received(self, data: bytes) -> None:
        self._owed += len(data)
        if self._owed >= _WINDOW // 2:
            self._connection.give_credit(self.stream_id, self._owed)
            self._owed = 0
        data = self._held + data if self._held else data
        at = count = 0
        while at < len(data):
            if not self._expected:
                self._connection.fail(f"{len(data) - at} bytes more than what was sent")
                return
            expected = self._expected[0]
            if not data.startswith(expected, at):
                if not expected.startswith(data[at:]):
                    self._connection.fail(f"reply {self.received + count} is not what was sent")
                    return
                break  # the beginning of a reply
            del self._expected[0]
            at += len(expected)
            count += 1
        self._held = data[at:]
        self.received += count
        if self.running:
            self._send(count)


async def _connect(url: str, ca: str | None, failed: asyncio.Future[None]) -> Connection:
    parts = urlsplit(url)
    context = None
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=ca)
        context.set_alpn_protocols(["h2"])
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(
        lambda: Connection(failed), parts.hostname, parts.port, ssl=context
    )
    await connection.ready  # its windows are in there
    return connection


async def _open(args: argparse.Namespace, failed: asyncio.Future[None]) -> list[Stream]:
    parts = urlsplit(args.url)
    streams: list[Stream] = []
    try:
        async with asyncio.timeout(_OPEN_TIMEOUT):
            connections = [
                await _connect(args.url, args.ca, failed)
                for _ in range(args.connections or args.streams)
            ]
            for _, connection in zip(range(args.streams), itertools.cycle(connections)):
                messages = Messages(args.size)
                wire = WIRES[args.wire](messages, parts.netloc, parts.scheme, parts.path)
                stream = connection.open(wire)
                streams.append(stream)
                await asyncio.wait([stream.answered, failed], return_when="FIRST_COMPLETED")
                if failed.done():
                    failed.result()
    except TimeoutError:
        raise LoadError(f"no stream within {_OPEN_TIMEOUT} s") from None
    return streams


async def throughput(args: argparse.Namespace) -> Counts:
    """Count round trips, and the measured process's cost of them."""
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    streams = await _open(args, failed)
    return await count_round_trips(streams, failed, args)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.http2_load", description=__doc__)
    parser.add_argument("url", help="http://… or https://… of the stream")
    parser.add_argument("--wire", default="events", choices=list(WIRES))
    parser.add_argument("--connections", type=int, help="that share the streams (one for each)")
    parser.add_argument("--ca", metavar="FILE", help="whom to trust with https://")
    add_options(parser)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(throughput(parser.parse_args()))))


if __name__ == "__main__":
    main()
