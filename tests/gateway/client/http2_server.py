"""A gateway's place made of frames: hyperframe and hpack, and no state machine that objects.

::

    async with RawGateway() as server, connect(server.url, "m", transport="http2") as stream:
        at_gateway = await server.stream()
        at_gateway.data(part(b"hi"))
        assert (await stream.receive()).payload == b"hi"
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Self

from hpack import Decoder, Encoder
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from partway.gateway.client import ClientStream, connect
from tests.wire.event_messages import EventBuffer, EventMessage
from tests.wire.peers import ENDPOINT, PATIENCE, soon

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
EVENT_STREAM = "application/vnd.amazon.eventstream"
#: Every window's size to begin with (RFC 9113 §6.9.2).
WINDOW = 65_535


class AtGateway:
    """One connection, read in the background.

    Attributes:
        raw: every byte so far.
        seen: every frame so far.
        headers: the request's, in their order.
        events: messages of the request's body.
        body_bytes: of all DATA so far.
        ended: whether END_STREAM has come.
        over: whether the connection has ended.
    """

    def __init__(
        self, server: RawGateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server = server
        self._reader = reader
        self.writer = writer
        self.raw = b""
        self.seen: list[Frame] = []
        self.headers: list[tuple[str, str]] = []
        self.events = EventBuffer()
        self.body_bytes = 0
        self.body = b""
        self.ended = False
        self.over = False
        self._encoder, self._decoder = Encoder(), Decoder()

    # --- Out -------------------------------------------------------------------------------------

    def send(self, *frames: Frame | bytes) -> None:
        """Frames, or bytes, whatever they are."""
        self.writer.write(
            b"".join(each if isinstance(each, bytes) else each.serialize() for each in frames)
        )

    def head(self, status: int = 200, *, end: bool = False, **headers: str) -> bytes:
        """The head of a response, as bytes to send."""
        fields = {"content-type": EVENT_STREAM, "x-amzn-requestid": "abc"}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        flags = ["END_HEADERS", *(["END_STREAM"] if end else [])]
        block = self._encoder.encode([(":status", str(status)), *fields.items()])
        return HeadersFrame(1, block, flags=flags).serialize()

    def data(self, data: bytes, *, end: bool = False) -> None:
        """DATA at once, whatever the windows are."""
        pieces = [data[at : at + 16_384] for at in range(0, len(data), 16_384)] or [b""]
        for number, piece in enumerate(pieces, 1):
            flags = ["END_STREAM"] if end and number == len(pieces) else []
            self.send(DataFrame(1, piece, flags=flags))

    def give_credit(self, size: int, stream_id: int) -> None:
        """WINDOW_UPDATE."""
        self.send(WindowUpdateFrame(stream_id, window_increment=size))

    def rst(self, code: int) -> None:
        self.send(RstStreamFrame(1, error_code=code))

    def goaway(self, last: int, code: int = 0) -> None:
        """GOAWAY, with some debug data."""
        self.send(GoAwayFrame(0, last_stream_id=last, error_code=code, additional_data=b"bye"))

    def abort(self) -> None:
        self.writer.transport.abort()

    def tcp_reset(self) -> None:
        """Drop it with TCP's RST."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.abort()

    # --- In --------------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a state of what has come."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not condition():  # noqa: ASYNC110 (nobody sets an event)
                    await asyncio.sleep(0.002)
        except TimeoutError:
            raise AssertionError(f"waited for {what}; last seen: {self.seen[-3:]}") from None

    async def frame(self, kind: type[Frame]) -> Frame:
        """The first frame of a kind; it is taken out of those seen."""

        def found() -> list[Frame]:
            return [each for each in self.seen if isinstance(each, kind)]

        await self.until(lambda: bool(found()), kind.__name__)
        first = found()[0]
        self.seen.remove(first)
        return first

    def settings_answered(self) -> bool:
        """Whether the client's ACK has come, the last of what it says by itself."""
        return any(isinstance(each, SettingsFrame) and "ACK" in each.flags for each in self.seen)

    async def event(self) -> EventMessage:
        """The next message of the request."""
        message: list[EventMessage] = []

        def next_one() -> bool:
            one = self.events.next()
            if one is not None:
                message.append(one)
            return bool(message)

        await self.until(next_one, "an event")
        return message[0]

    async def eof(self) -> None:
        """Wait for the connection's end."""
        await self.until(lambda: self.over, "the connection's end")

    async def serve(self) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            preface = await self._read(len(PREFACE))
            assert preface == PREFACE
            self.send(SettingsFrame(0, settings=self._server.settings))
            while True:
                head = await self._read(9)
                frame, length = Frame.parse_frame_header(memoryview(head))
                frame.parse_body(memoryview(await self._read(length)))
                self._received(frame)
                self.seen.append(frame)
        self.over = True

    async def _read(self, size: int) -> bytes:
        data = await self._reader.readexactly(size)
        self.raw += data
        return data

    def _received(self, frame: Frame) -> None:
        server = self._server
        if isinstance(frame, SettingsFrame) and "ACK" not in frame.flags:
            self.send(SettingsFrame(0, flags=["ACK"]))
        elif isinstance(frame, PingFrame) and "ACK" not in frame.flags and server.pongs:
            self.send(PingFrame(0, frame.opaque_data, flags=["ACK"]))
        elif isinstance(frame, HeadersFrame):
            decoded = self._decoder.decode(frame.data)
            self.headers = [(str(name), str(value)) for name, value in decoded]
            if server.grants:
                self.send(self.head())
            server.asked.put_nowait(self)
        elif isinstance(frame, DataFrame):
            self.body_bytes += frame.flow_controlled_length
            self.body += frame.data
            self.events.feed(frame.data)
            self.ended |= "END_STREAM" in frame.flags


class RawGateway:
    """A server of HTTP/2.

    Args:
        grants: whether each request is answered with 200 at once.
        pongs: whether pings are answered.
        settings: of each connection, by number.
        tls: to serve over TLS.
        receive_buffer: SO_RCVBUF of its connections.
    """

    def __init__(
        self,
        *,
        grants: bool = True,
        pongs: bool = True,
        settings: dict[int, int] | None = None,
        tls: ssl.SSLContext | None = None,
        receive_buffer: int | None = None,
    ) -> None:
        self.grants = grants
        self.pongs = pongs
        self.settings = settings or {}
        self.asked: asyncio.Queue[AtGateway] = asyncio.Queue()
        self.connections: list[AtGateway] = []
        self.url = ""
        self._tls = tls
        self._receive_buffer = receive_buffer
        self._server: asyncio.Server | None = None

    async def stream(self) -> AtGateway:
        """The next connection whose request has come."""
        return await soon(self.asked.get(), "a request")

    async def __aenter__(self) -> Self:
        listening = socket.create_server(("127.0.0.1", 0))
        if self._receive_buffer is not None:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)
        port = listening.getsockname()[1]
        self.url = f"{'http' if self._tls is None else 'https'}://localhost:{port}"
        self._server = await asyncio.start_server(self._serve, sock=listening, ssl=self._tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self.connections:
            connection.abort()
        for connection in self.connections:
            await connection.eof()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = AtGateway(self, reader, writer)
        self.connections.append(connection)
        await connection.serve()


def opened(server: RawGateway, **more: Any) -> AbstractAsyncContextManager[ClientStream]:
    return connect(server.url, ENDPOINT, transport="http2", **more)
