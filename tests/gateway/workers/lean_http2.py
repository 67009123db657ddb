"""A client of HTTP/2 that costs little, and that goes on with its streams after GOAWAY.

:mod:`tests.wire.http2_peers` checks every frame; a load needs that time for its pace.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable

from hpack import Decoder, Encoder

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
ACK = END_STREAM = 0x1
END_HEADERS = 0x4
PADDED_OR_PRIORITY = 0x28
HEADER_TABLE_SIZE, ENABLE_PUSH, INITIAL_WINDOW_SIZE = 0x1, 0x2, 0x4

_HEADER = struct.Struct("!HBBBI")

#: The server's windows: each connection and each stream receives less in its life.
_WINDOW = 1 << 30


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    size = len(payload)
    return _HEADER.pack(size >> 8, size & 0xFF, kind, flags, stream_id) + payload


def head_of(headers: Iterable[tuple[str, str]]) -> bytes:
    """A block of headers that any connection takes: no table has any of it."""
    encoder = Encoder()
    encoder.header_table_size = 0
    return encoder.encode(list(headers))


class GivenBack(Exception):
    """GOAWAY says that the server has not processed the request (RFC 9113 §6.8)."""


class LeanStream:
    """Attributes:
    status: the response's; 0 before its head.
    ended: the response has ended in order.
    fault: in which other way it has ended.
    """

    def __init__(self, client: LeanClient, stream_id: int) -> None:
        self.client = client
        self.stream_id = stream_id
        self.received = bytearray()
        self.status = 0
        self.ended = False
        self.fault: Exception | None = None
        self._news = asyncio.Event()

    def send(self, data: bytes, *, end: bool = False) -> None:
        self.client.send_data(self.stream_id, data, end=end)

    async def head(self) -> int:
        while not self.status:
            await self._more()
        return self.status

    async def read(self) -> bytes:
        """Return what has come of the response, some bytes at least."""
        while not self.received:
            await self._more()
        data = bytes(self.received)
        self.received.clear()
        return data

    async def rest(self) -> bytes:
        """Return the response's further bytes, once it has ended."""
        while not self.ended:
            await self._more()
        return bytes(self.received)

    def changed(self) -> None:
        self._news.set()

    async def _more(self) -> None:
        if self.fault is not None:
            raise self.fault
        assert not self.ended, "the response has ended"
        self._news.clear()
        await self._news.wait()


class LeanClient(asyncio.Protocol):
    """A connection; :meth:`connect` makes one.

    Attributes:
        leaving: the server has said GOAWAY.
        open: the streams that have not ended, by their ids.
    """

    def __init__(self) -> None:
        self.leaving = False
        self.open: dict[int, LeanStream] = {}
        self._next_id = 1
        self._window = 65_535
        self._rest = b""
        self._decoder = Decoder()
        self._ready = asyncio.Event()
        self._transport: asyncio.Transport

    @classmethod
    async def connect(cls, port: int) -> LeanClient:
        _, client = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        await client._ready.wait()
        return client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's is no subclass
        settings = struct.pack("!HIHI", ENABLE_PUSH, 0, INITIAL_WINDOW_SIZE, _WINDOW)
        more = (_WINDOW - 65_535).to_bytes(4, "big")
        transport.write(
            PREFACE + frame(SETTINGS, 0, 0, settings) + frame(WINDOW_UPDATE, 0, 0, more)
        )

    def connection_lost(self, exc: Exception | None) -> None:
        self.leaving = True
        self._ready.set()
        self._end_from(0, EOFError(f"the connection ended: {exc!r}"))

    def request(self, head: bytes) -> LeanStream:
        stream = LeanStream(self, self._next_id)
        self._next_id += 2
        self.open[stream.stream_id] = stream
        self._transport.write(frame(HEADERS, END_HEADERS, stream.stream_id, head))
        return stream

    def send_data(self, stream_id: int, data: bytes, *, end: bool) -> None:
        self._window -= len(data)
        assert self._window >= 0, "the server gives no credit"
        self._transport.write(frame(DATA, END_STREAM if end else 0, stream_id, data))

    def close(self) -> None:
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        at, there = 0, len(data)
        while at + 9 <= there:
            high, low, kind, flags, stream_id = _HEADER.unpack_from(data, at)
            end = at + 9 + (high << 8 | low)
            if end > there:
                break
            self._frame(kind, flags, stream_id, data[at + 9 : end])
            at = end
        self._rest = data[at:]

    def _frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if kind == WINDOW_UPDATE:
            self._window += 0 if stream_id else int.from_bytes(payload, "big")
        elif kind == SETTINGS and not flags & ACK:
            self._transport.write(frame(SETTINGS, ACK, 0))
            self._ready.set()
        elif kind == PING and not flags & ACK:
            self._transport.write(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            self.leaving = True
            last = int.from_bytes(payload[:4], "big")
            self._end_from(last + 1, GivenBack())
        elif stream := self.open.get(stream_id):
            self._frame_of(stream, kind, flags, payload)

    def _frame_of(self, stream: LeanStream, kind: int, flags: int, payload: bytes) -> None:
        assert not flags & PADDED_OR_PRIORITY, "no server sends this"
        if kind == HEADERS:
            assert flags & END_HEADERS, "heads are short"
            fields = dict(self._decoder.decode(payload))
            stream.status = stream.status or int(fields[":status"])
        elif kind == DATA:
            stream.received += payload
        elif kind == RST_STREAM:
            stream.fault = EOFError(f"RST_STREAM, code {int.from_bytes(payload, 'big')}")
        if kind == RST_STREAM or flags & END_STREAM:
            stream.ended = stream.fault is None
            del self.open[stream.stream_id]
        stream.changed()

    def _end_from(self, stream_id: int, fault: Exception) -> None:
        for each in [each for each in self.open.values() if each.stream_id >= stream_id]:
            each.fault = fault
            del self.open[each.stream_id]
            each.changed()
