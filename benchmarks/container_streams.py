"""Streams that send at their rate, whatever comes back, and check every byte of the replies.

Frames are joined from prepared pieces, and replies are compared with expected bytes. So one core
has time for fifty thousand of each in a second.
"""

from __future__ import annotations

import asyncio
import math
import time
from array import array
from typing import cast

from benchmarks.load import LoadError

PATH = "/invocations-bidirectional-stream"

#: Seconds for some streams to open with a first reply on each, and for all streams to close.
_OPEN_TIMEOUT = 30.0
#: Streams that are opened at the same time.
_OPENING = 50
#: Seconds between two looks for due messages, and most messages that are sent before replies are
#: read.
_TICK = 0.001
_BURST = 100

#: Lengths of the payloads: each stream has its own.
_SHORTEST, _LONGEST = 32, 64
_NUMBER_BYTES = 8

#: A key that changes nothing: the container unmasks as usual, and frames here can be joined from
#: pieces.
_KEY = bytes(4)
_TEXT, _CLOSE, _PING, _PONG = 0x81, 0x88, 0x89, 0x8A
_MASKED = 0x80
_LENGTH = 0x7F

_ABNORMAL = 1006


def upgrade(address: str) -> bytes:
    return (
        f"GET {PATH} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()


class Stream(asyncio.Protocol):
    __slots__ = (
        "_index", "_load", "_read", "_reply_head", "_send_head", "_transport",
        "closed", "code", "received", "upgraded",
    )  # fmt: skip

    def __init__(self, load: Load, index: int) -> None:
        self._load = load
        self._index = index
        length = _SHORTEST + index % (_LONGEST - _SHORTEST + 1)
        text = f"stream {index} ".encode().ljust(length - _NUMBER_BYTES, b".")
        self._send_head = bytes((_TEXT, _MASKED | length)) + _KEY + text
        self._reply_head = bytes((_TEXT, length)) + text
        self._read = b""
        self._transport: asyncio.Transport
        loop = asyncio.get_running_loop()
        #: Replies so far.
        self.received = 0
        #: The code of the container's Close; 1006 without a Close, None while the stream is open.
        self.code: int | None = None
        self.upgraded: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()

    def send(self, number: bytes) -> None:
        self._transport.write(self._send_head + number)

    def say_close(self, code: int) -> None:
        payload = code.to_bytes(2, "big")
        self._transport.write(bytes((_CLOSE, _MASKED | len(payload))) + _KEY + payload)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)  # uvloop then writes at once
        self._transport.write(self._load.upgrade)

    def data_received(self, data: bytes) -> None:
        load = self._load
        if data == self._reply_head + load.numbers[self.received] and not self._read:
            self._reply_received()  # nearly always
            return
        self._read += data
        if self.upgraded.done():
            self._frames()
        else:
            self._head()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.code is None:
            self.code = _ABNORMAL
            self._load.stream_ended(f"stream {self._index} ended without a Close: {exc}")
        if not self.upgraded.done():
            self.upgraded.set_exception(LoadError("the connection ended during the handshake"))
        self.closed.set_result(None)

    def _head(self) -> None:
        head, end, rest = self._read.partition(b"\r\n\r\n")
        if end:
            self._read = rest
            if head.startswith(b"HTTP/1.1 101 "):
                self.upgraded.set_result(None)
            else:
                self.upgraded.set_exception(LoadError(f"no 101: {head[:200]!r}"))

    def _frames(self) -> None:
        """Handle bytes that are not exactly the next reply."""
        load = self._load
        while len(self._read) >= 2:
            first, length = self._read[0], self._read[1] & _LENGTH
            frame, rest = self._read[: 2 + length], self._read[2 + length :]
            if len(frame) < 2 + length:
                return
            self._read = rest
            if frame == self._reply_head + load.numbers[self.received]:
                self._reply_received()
            elif first == _CLOSE:
                self._close_received(frame[2:])
            elif first == _PING:
                self._transport.write(bytes((_PONG, _MASKED | length)) + _KEY + frame[2:])
            else:
                load.fail(f"stream {self._index}: not reply {self.received}, but {frame!r}")
                return

    def _reply_received(self) -> None:
        load = self._load
        load.received_at[self.received * load.streams_count + self._index] = time.monotonic()
        self.received += 1

    def _close_received(self, payload: bytes) -> None:
        if self.code is None:
            self.code = int.from_bytes(payload[:2], "big")
            self._load.stream_ended(f"stream {self._index} got Close {self.code}")
            self.say_close(self.code)


class Load:
    """All streams, evenly staggered: one message is due every ``1 / streams / rate`` seconds.

    Message ``n`` of all is message ``n // streams`` of stream ``n % streams``. The first message of
    each stream belongs to its opening.

    Args:
        rate: messages a second on each.
        seconds: how long at most.
    """

    def __init__(self, address: str, streams: int, rate: float, seconds: float) -> None:
        host, _, port = address.rpartition(":")
        self._host, self._port = host, int(port)
        self.upgrade = upgrade(address)
        self.streams_count = streams
        self.per_second = streams * rate
        rounds = 1 + math.ceil(rate * seconds)
        #: Messages in all, and messages sent, or left out on a stream that has ended.
        self.count = streams * rounds
        self.sent = 0
        #: The ends of all payloads, and one more that is never sent, so that it never comes back.
        self.numbers = [b"%0*d" % (_NUMBER_BYTES, n) for n in range(rounds + 1)]
        #: By message: when it was sent, and when its reply came; 0 for neither.
        self.sent_at = array("d", bytes(8 * self.count))
        self.received_at = array("d", bytes(8 * (self.count + streams)))
        self.streams: list[Stream] = []
        self.began = 0.0
        #: Whether streams may end.
        self.ending = False
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def fail(self, what: str) -> None:
        if not self._failed.done():
            self._failed.set_exception(LoadError(what))

    def stream_ended(self, what: str) -> None:
        if not self.ending:
            self.fail(what)

    async def open(self, count: int) -> None:
        """Open ``count`` more streams, with a message and its reply on each."""
        loop = asyncio.get_running_loop()
        while count:
            opening = min(count, _OPENING)
            count -= opening
            first = len(self.streams)
            more = [Stream(self, first + n) for n in range(opening)]
            self.streams += more
            async with asyncio.timeout(_OPEN_TIMEOUT):
                for stream in more:
                    await loop.create_connection(lambda s=stream: s, self._host, self._port)
                await asyncio.gather(*(stream.upgraded for stream in more))
            for stream in more:
                self.sent_at[self.sent] = time.monotonic()
                self.sent += 1
                stream.send(self.numbers[0])
            await self.answered(_OPEN_TIMEOUT)

    async def run(self, *, until: float) -> None:
        """Send due messages, until ``until`` seconds from the beginning of the load."""
        if not self.began:
            self.began = time.monotonic()
        end = min(self.count, self.streams_count + int(until * self.per_second))
        while self.sent < end:
            behind = self._send_due(end)
            await self._sleep(0.0 if behind else _TICK)

    def _send_due(self, end: int) -> bool:
        """Send due messages, at most one burst; return whether more are due."""
        streams, numbers, sent_at = self.streams, self.numbers, self.sent_at
        due = self.streams_count + int((time.monotonic() - self.began) * self.per_second)
        due = min(due, end)
        for n in range(self.sent, min(due, self.sent + _BURST)):
            number, index = divmod(n, self.streams_count)
            stream = streams[index]
            if stream.code is None:
                sent_at[n] = time.monotonic()
                stream.send(numbers[number])
            self.sent = n + 1
        return self.sent < due

    async def answered(self, seconds: float) -> bool:
        """Wait until all replies are there, at most ``seconds``; return whether they are."""
        deadline = time.monotonic() + seconds
        while sum(stream.received for stream in self.streams) < self.sent:
            if time.monotonic() > deadline:
                return False
            await self._sleep(0.01)
        return True

    async def close(self) -> None:
        """End every stream with a closing handshake."""
        self.ending = True
        for stream in self.streams:
            stream.say_close(1000)
        await self.closed(_OPEN_TIMEOUT)

    async def closed(self, seconds: float) -> None:
        """Wait until every stream has ended.

        Raises:
            LoadError: a stream goes on.
        """
        waiting = [stream.closed for stream in self.streams]
        _, left = await asyncio.wait(waiting, timeout=seconds)
        if left:
            raise LoadError(f"{len(left)} streams did not end within {seconds} s")

    async def _sleep(self, seconds: float) -> None:
        """Sleep.

        Raises:
            LoadError: the load has failed meanwhile.
        """
        await asyncio.sleep(seconds)
        if self._failed.done():
            self._failed.result()
