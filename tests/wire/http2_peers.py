"""A client of HTTP/2 made of frames: hyperframe and hpack, and no state machine that objects.

It can send any frame at any time. What it does by itself can be switched off: it acknowledges
settings and pings, and it gives credit back, a connection's at once and a stream's when a test has
read the bytes. So a test that does not read holds its stream back, and no other (clause 2.6-2). It
stays within the server's windows unless it is told not to, and holds the server to its own.

::

    async with await RawHttp2Client.connect(port) as client:
        stream = client.request(bidirectional_request())
        assert (await stream.head())[0] == 200
        stream.send(part_event(b"hi", "UTF8"))
        assert (await stream.event()).payload == b"hi"
        stream.end()
        assert await stream.ended() == ("END_STREAM",)
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Self

from hpack import Decoder, Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.wire.http2_streams import FRAME, Code, RawHttp2Stream, named
from tests.wire.peers import PATIENCE, RawClient, soon

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#: Every window's size to begin with (RFC 9113 §6.9.2).
WINDOW = 65_535


class RawHttp2Client:
    """A connection; :meth:`connect` makes one.

    It reads when something is awaited, and all the time after :meth:`start_reading`.

    Attributes:
        credit: bytes that the server still takes on the connection.
        window: bytes that the server may still send.
        settings: the server's, by number.
        settings_acks: how many of ours the server has acknowledged.
        goaway: the server's last GOAWAY.
        seen: every frame read so far.
        streams: by their ids.
        over: how the connection ended: EOF, CUT (the same inside a frame) or ABORT.
    """

    def __init__(
        self,
        wire: RawClient,
        settings: Mapping[int, int],
        *,
        auto_settings_ack: bool,
        auto_window: bool,
        auto_ping_ack: bool,
    ) -> None:
        self.wire = wire
        self.auto_settings_ack = auto_settings_ack
        self.auto_window = auto_window
        self.auto_ping_ack = auto_ping_ack
        self.credit = self.window = WINDOW
        self.settings: dict[int, int] = {}
        self.settings_acks = 0
        self.goaway: GoAwayFrame | None = None
        #: Whether this client has said GOAWAY itself.
        self.goes = False
        self.seen: list[Frame] = []
        self.streams: dict[int, RawHttp2Stream] = {}
        self.over: str | None = None
        self.encoder = Encoder()
        self._decoder = Decoder()
        self._stream_window = settings.get(SettingsFrame.INITIAL_WINDOW_SIZE, WINDOW)
        self._block: HeadersFrame | None = None
        self._frame_head = b""
        self._pings = 0
        self._pongs: set[bytes] = set()
        self._reading = asyncio.Lock()
        self._news = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._fault: Exception | None = None
        self._handlers: dict[type[Frame], Callable[[Any], None]] = {
            HeadersFrame: self._headers,
            ContinuationFrame: self._headers,
            DataFrame: self._data,
            SettingsFrame: self._settings,
            WindowUpdateFrame: self._window_update,
            RstStreamFrame: self._rst_stream,
            GoAwayFrame: self._goaway,
            PingFrame: self._ping,
        }

    @classmethod
    async def connect(
        cls,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        alpn: Iterable[str] | None = ("h2",),
        receive_buffer: int | None = None,
        settings: Mapping[int, int] | None = None,
        preface: bool = True,
        auto_settings_ack: bool = True,
        auto_window: bool = True,
        auto_ping_ack: bool = True,
    ) -> Self:
        """Connect to a local port, and say the preface.

        Args:
            port: of this machine.
            tls: for TLS, as ``localhost``; it gets the ``alpn``.
            alpn: protocols to offer, None for no ALPN at all.
            receive_buffer: SO_RCVBUF.
            settings: ours, by number.
            preface: send it and the settings.
            auto_settings_ack: acknowledge the server's settings.
            auto_window: give credit back, for the connection when DATA comes and for a stream
                when DATA is read from it.
            auto_ping_ack: answer the server's pings.
        """
        wire = await RawClient.connect(port, receive_buffer=receive_buffer)
        # asyncio does it for sockets that were made with their protocol's number only.
        sock = wire.writer.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = cls(
            wire,
            settings or {},
            auto_settings_ack=auto_settings_ack,
            auto_window=auto_window,
            auto_ping_ack=auto_ping_ack,
        )
        try:
            if tls is not None:
                await start_tls(wire, tls, alpn)
        except BaseException:
            client.abort()
            raise
        if preface:
            wire.send(PREFACE, SettingsFrame(0, settings=dict(settings or {})).serialize())
        return client

    @property
    def alpn(self) -> str | None:
        """What TLS agreed on."""
        ssl_object = self.wire.writer.get_extra_info("ssl_object")
        return None if ssl_object is None else ssl_object.selected_alpn_protocol()

    # --- Out -------------------------------------------------------------------------------------

    def send_bytes(self, *pieces: bytes) -> None:
        """Write bytes, whatever they are."""
        self.wire.send(*pieces)

    def send_frame(self, *frames: Frame) -> None:
        """Write frames, whatever they are."""
        self.wire.send(*(frame.serialize() for frame in frames))

    def request(
        self,
        headers: Iterable[tuple[str, str]],
        end_stream: bool = False,
        *,
        fragment: int = FRAME,
        stream_id: int | None = None,
    ) -> RawHttp2Stream:
        """Open a stream.

        Args:
            headers: pseudo-headers first, if it is to be right.
            end_stream: no body.
            fragment: the rest of a longer header block goes into CONTINUATION frames.
            stream_id: the next odd one by default.
        """
        stream_id = stream_id or 2 * len(self.streams) + 1
        credit = self.settings.get(SettingsFrame.INITIAL_WINDOW_SIZE, WINDOW)
        stream = RawHttp2Stream(self, stream_id, credit, self._stream_window)
        self.streams[stream_id] = stream
        self.send_headers(stream, headers, end_stream=end_stream, fragment=fragment)
        return stream

    def send_headers(
        self,
        stream: RawHttp2Stream,
        headers: Iterable[tuple[str, str]],
        *,
        end_stream: bool = False,
        fragment: int = FRAME,
    ) -> None:
        """A block of headers on a stream: a request's, or trailers."""
        block = self.encoder.encode(list(headers))
        pieces = [block[at : at + fragment] for at in range(0, len(block), fragment)] or [b""]
        frames: list[Frame] = [HeadersFrame(stream.stream_id, pieces[0])]
        frames += [ContinuationFrame(stream.stream_id, piece) for piece in pieces[1:]]
        frames[-1].flags.add("END_HEADERS")
        if end_stream:
            frames[0].flags.add("END_STREAM")
            stream.input_ended = True
        self.send_frame(*frames)

    def send_goaway(self, code: int = Code.NO_ERROR, last_stream_id: int = 0) -> None:
        """GOAWAY; streams go on."""
        self.goes = True
        self.send_frame(GoAwayFrame(0, last_stream_id=last_stream_id, error_code=code))

    def give_credit(self, size: int) -> None:
        """WINDOW_UPDATE of the connection."""
        self.window += size
        self.send_frame(WindowUpdateFrame(0, window_increment=size))

    async def flush(self) -> None:
        """Wait until the socket has nearly everything."""
        await self.wire.flush()

    def abort(self) -> None:
        """Drop the connection; unsent bytes are lost."""
        if self._reader is not None:
            self._reader.cancel()
        self.wire.abort()

    def reset(self) -> None:
        """Drop the connection with RST."""
        self.wire.reset()

    async def aclose(self) -> None:
        """Drop the connection, and end the task that reads it."""
        self.abort()
        if self._reader is not None:
            await asyncio.wait([self._reader])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # --- In --------------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Read frames until a condition holds.

        Raises:
            EOFError: the connection ended first.
            AssertionError: it did not come in time, or the server broke a rule.
        """
        try:
            await asyncio.wait_for(self._until(condition), PATIENCE)
        except TimeoutError:
            seen = self.seen[-3:]
            raise AssertionError(f"waited {PATIENCE:g} s for {what}; last seen: {seen}") from None

    async def ping(self) -> None:
        """Wait until the server has read what was sent so far.

        Raises:
            EOFError: the connection ended first.
        """
        self._pings += 1
        data = b"seen%04d" % self._pings
        self.send_frame(PingFrame(0, data))
        await self.until(lambda: data in self._pongs, "a pong")

    async def settled(self) -> None:
        """The same, and what it says to it at once has come.

        h2 answers a ping before it lets the server know what came in front of it; so there is a
        second one.
        """
        await self.ping()
        await self.ping()

    async def ready(self) -> None:
        """Wait for both sides' settings."""
        await self.until(
            lambda: any(isinstance(frame, SettingsFrame) for frame in self.seen), "settings"
        )

    async def gone(self) -> str:
        """Wait for GOAWAY, or the connection's end: ``GOAWAY(CODE)``, or see ``over``."""
        await self._suppressing(self.until(lambda: self.goaway is not None, "GOAWAY"))
        return f"GOAWAY({named(self.goaway.error_code)})" if self.goaway else self.over or ""

    async def eof(self) -> str:
        """Wait for the connection's end: see ``over``."""
        await self._suppressing(self.until(lambda: False, "the connection's end"))
        return self.over or ""

    def start_reading(self) -> None:
        """Read in the background from now on; :meth:`aclose` ends it."""
        assert self._reader is None, "once"
        self._reader = asyncio.create_task(self._read_all())

    async def _suppressing(self, waiting: Awaitable[None]) -> None:
        with suppress(EOFError):
            await waiting

    async def _until(self, condition: Callable[[], bool]) -> None:
        while True:
            if self._fault is not None:
                raise self._fault
            if condition():
                return
            if self.over is not None:
                raise EOFError(f"the connection ended: {self.over}, {self.goaway}")
            if self._reader is not None:
                await self._news.wait()
                continue
            async with self._reading:
                if not condition() and self.over is None:
                    await self._read_frame()

    async def _read_all(self) -> None:
        try:
            while self.over is None:
                await self._read_frame()
        except Exception as error:  # whoever waits has to know
            self._fault = error
            self._tell()

    async def _read_frame(self) -> None:
        """Read one frame; what it has read of it outlives a cancellation."""
        reader = self.wire.reader
        try:
            if not self._frame_head:
                self._frame_head = await reader.readexactly(9)
            frame, length = Frame.parse_frame_header(memoryview(self._frame_head))
            body = await reader.readexactly(length)
        except asyncio.IncompleteReadError as error:
            self._ended("CUT" if error.partial or self._frame_head else "EOF")
            return
        except (ConnectionError, ssl.SSLError):
            self._ended("ABORT")
            return
        self._frame_head = b""
        frame.parse_body(memoryview(body))
        self.seen.append(frame)
        self._handle(frame)
        self._tell()

    def _ended(self, how: str) -> None:
        self.over = how
        for stream in self.streams.values():
            if not stream.answered:
                stream.ends.append(how)
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    # --- Frames ----------------------------------------------------------------------------------

    def _handle(self, frame: Frame) -> None:
        if self._block is not None:
            assert isinstance(frame, ContinuationFrame), f"{frame} inside a block of headers"
            assert frame.stream_id == self._block.stream_id, frame
        if type(frame) in self._handlers:  # what is unknown is ignored (RFC 9113 §4.1)
            self._handlers[type(frame)](frame)

    def _headers(self, frame: HeadersFrame | ContinuationFrame) -> None:
        if self._block is None:
            assert isinstance(frame, HeadersFrame), frame
            self._block = frame
        else:
            self._block.data += frame.data
        if "END_HEADERS" not in frame.flags:
            return
        first, self._block = self._block, None
        decoded = self._decoder.decode(first.data)  # always, or the table falls behind
        stream = self.streams[first.stream_id]
        assert not stream.answered, f"headers behind {stream.ends}"
        stream.heads.append([(str(name), str(value)) for name, value in decoded])
        if "END_STREAM" in first.flags:
            stream.ends.append("END_STREAM")

    def _data(self, frame: DataFrame) -> None:
        stream = self.streams[frame.stream_id]
        assert not stream.answered, f"DATA behind {stream.ends}"
        size = frame.flow_controlled_length
        self.window -= size
        assert self.window >= 0, f"{-self.window} bytes over the connection's window"
        stream.take(frame)
        if self.auto_window and size:
            self.give_credit(size)
        if "END_STREAM" in frame.flags:
            stream.ends.append("END_STREAM")

    def _window_update(self, frame: WindowUpdateFrame) -> None:
        if frame.stream_id == 0:
            self.credit += frame.window_increment
        else:
            self.streams[frame.stream_id].credit += frame.window_increment
        self._pump()

    def _rst_stream(self, frame: RstStreamFrame) -> None:
        stream = self.streams[frame.stream_id]
        stream.ends.append(f"RST_STREAM({named(frame.error_code)})")

    def _goaway(self, frame: GoAwayFrame) -> None:
        for stream in self.streams.values():
            if not stream.answered:
                stream.ends.append(f"GOAWAY({named(frame.error_code)})")
        self.goaway = frame

    def _ping(self, frame: PingFrame) -> None:
        if "ACK" in frame.flags:
            self._pongs.add(frame.opaque_data)
        elif self.auto_ping_ack:
            self.send_frame(PingFrame(0, frame.opaque_data, flags=["ACK"]))

    def _settings(self, frame: SettingsFrame) -> None:
        if "ACK" in frame.flags:
            self.settings_acks += 1
            return
        before = self.settings.get(SettingsFrame.INITIAL_WINDOW_SIZE, WINDOW)
        self.settings |= frame.settings
        after = self.settings.get(SettingsFrame.INITIAL_WINDOW_SIZE, WINDOW)
        for stream in self.streams.values():
            stream.credit += after - before
        if SettingsFrame.HEADER_TABLE_SIZE in frame.settings:
            table = frame.settings[SettingsFrame.HEADER_TABLE_SIZE]
            self.encoder.header_table_size = min(4096, table)
        if self.auto_settings_ack:
            self.send_frame(SettingsFrame(0, flags=["ACK"]))
        self._pump()

    def _pump(self) -> None:
        for stream in self.streams.values():
            stream.pump()


async def start_tls(wire: RawClient, tls: ssl.SSLContext, alpn: Iterable[str] | None) -> None:
    """TLS on a connection that has said nothing yet."""
    if alpn is not None:
        tls.set_alpn_protocols(list(alpn))
    await soon(wire.writer.start_tls(tls, server_hostname="localhost"), "a TLS handshake")
    # Python 3.11 leaves the reader its old transport, so it would pause the wrong one.
    wire.reader._transport = wire.writer.transport  # type: ignore[attr-defined]
