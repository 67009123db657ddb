"""The instrumented container: it records all frames of a platform, with their times.

A check decides what the container answers, right or wrong. Otherwise the container does what RFC
6455 asks of a server, and sends nothing of its own.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

from partway.gateway.network.dialling import Address
from partway.gateway.workbench.conformance.evidence import NotedExchange
from partway.gateway.workbench.conformance.platform.frames import FrameReader, SeenFrame
from partway.gateway.workbench.conformance.raw_stream import frame_bytes
from partway.gateway.workbench.conformance.verdict import Broken
from partway.protocol.websocket.frames import Opcode
from partway.protocol.websocket.handshake import accept_key

#: Most bytes of an upgrade's head, and of all that one stream may send; checks need far less.
MAX_HEAD: Final = 1 << 16
MAX_RECORDED: Final = 64 << 20

#: Connections that may wait to be accepted: more than a check ever opens.
BACKLOG: Final = 16

_READ: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class UpgradeHead:
    """The head of a request for a stream; names in ``fields`` are in lower case."""

    line: str
    fields: tuple[tuple[str, str], ...]
    raw: bytes

    @property
    def target(self) -> str:
        """Path and query, as they were sent; "" if the request line has no three words."""
        return self.line.split(" ")[1] if self.line.count(" ") == 2 else ""

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key == name]

    def one(self, name: str) -> str:
        """A header's first value; "" without the header."""
        return next(iter(self.all(name)), "")


def read_head(raw: bytes) -> UpgradeHead:
    """Parse a head; a line without a colon counts as a header without a value."""
    line, *lines = raw.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    split = (each.partition(":") for each in lines)
    return UpgradeHead(line, tuple((name.lower(), value.strip()) for name, _, value in split), raw)


#: Makes the bytes that answer an upgrade; None leaves it unanswered.
Answer = Callable[[UpgradeHead], bytes | None]


def granted(head: UpgradeHead, changed: Mapping[str, str] | None = None) -> bytes:
    """Make the 101 that RFC 6455 §4.2.2 asks for, with headers changed or added."""
    fields = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Accept": accept_key(head.one("sec-websocket-key")),
        **(changed or {}),
    }
    lines = ["HTTP/1.1 101 Switching Protocols", *(f"{key}: {fields[key]}" for key in fields)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def refusing(status: str, body: bytes) -> Answer:
    """Make an answer that refuses an upgrade with a status, such as ``403 Forbidden``."""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return lambda _: head.encode() + body


class ContainerStream:
    """One connection of the platform's, from its first byte to its last.

    Attributes:
        pongs: whether Pings are answered.
        closes: whether a Close is answered, and TCP ended after both Closes.
        frames: all frames that came, in their order.
        ended: how the connection ended: ``FIN`` or a reset; empty while it is open.
        behind_close: frames behind the platform's Close, in words.
    """

    head: UpgradeHead

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, exchange: NotedExchange
    ) -> None:
        self.pongs = True
        self.closes = True
        self.frames: list[SeenFrame] = []
        self.ended = ""
        self.behind_close: list[str] = []
        self.exchange = exchange
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader()
        self._waiting: dict[int | None, deque[SeenFrame]] = {}
        self._news = asyncio.Event()
        self._recorded = 0
        self._close_sent = False
        self._close_came = False
        self._finished = False
        self._fault: Broken | None = None

    # --- Receiving -------------------------------------------------------------------------------

    async def data(self, timeout: float, what: str = "a part") -> SeenFrame:
        """Wait ``timeout`` seconds for the next data frame; ``what`` names the frame that is due.

        Raises:
            Broken: no data frame came, or the connection ended.
        """
        return await self._next(None, timeout, what)

    async def control(self, opcode: Opcode, timeout: float) -> SeenFrame:
        """Wait for the next Ping, Pong or Close; raises as :meth:`data` does."""
        return await self._next(opcode, timeout, f"a {opcode.name.capitalize()}")

    async def until(self, seen: Callable[[], bool], timeout: float, what: str) -> None:
        """Wait until ``seen()`` is true of the record; raises as :meth:`data` does."""
        try:
            async with asyncio.timeout(timeout):
                while not seen():
                    if self._fault is not None:
                        raise self._fault
                    if self.ended:
                        raise Broken(
                            f"the platform ended the connection ({self.ended}) before {what} came"
                        )
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise Broken(f"{what} did not come within {timeout:g} s") from None

    async def end(self, timeout: float) -> str:
        """Wait for the end of the connection: ``FIN``, or how it broke.

        Raises:
            Broken: the connection goes on.
        """
        await self.until(lambda: bool(self.ended), timeout, "the connection's end")
        return self.ended

    async def _next(self, kind: int | None, timeout: float, what: str) -> SeenFrame:
        waiting = self._waiting.setdefault(kind, deque())
        await self.until(lambda: bool(waiting), timeout, what)
        return waiting.popleft()

    # --- Sending ---------------------------------------------------------------------------------

    def send(self, opcode: int, payload: bytes = b"", *, fin: bool = True) -> None:
        """Send a frame as RFC 6455 asks of a server."""
        seen = SeenFrame(0.0, fin, 0, opcode, b"", payload)
        self.send_raw(frame_bytes(opcode, payload, fin=fin, masked=False), str(seen))

    def send_close(self, code: int | None = None, reason: str = "") -> None:
        """Send a Close, unless one was sent."""
        if not self._close_sent:
            self._close_sent = True
            payload = b"" if code is None else code.to_bytes(2, "big") + reason.encode()
            self.send(Opcode.CLOSE, payload)

    def send_raw(self, data: bytes, what: str) -> None:
        """Send bytes as they are, unless this side has ended; ``what`` names them in the record."""
        if self._finished:
            return
        self.exchange.note("sent", what, data)
        self._writer.write(data)

    def finish(self) -> None:
        """End this side of TCP; the other side is still read."""
        if not self._finished and not self._writer.is_closing():
            self._finished = True
            self.exchange.note("sent", "end of the connection")
            with suppress(OSError):  # the platform may have reset the connection just now
                self._writer.write_eof()

    def abort(self) -> None:
        self.exchange.note("sent", "the connection is cut")
        self._writer.transport.abort()

    # --- Its task --------------------------------------------------------------------------------

    async def read_request(self) -> None:
        """Read the head that asks for the stream.

        Raises:
            Broken: no whole head came.
        """
        try:
            raw = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError) as error:
            raise Broken(f"the platform connected, but sent no complete request: {error}") from None
        self.head = read_head(raw)
        self.exchange.note("received", self.head.line, raw)

    async def read_on(self) -> None:
        try:
            while data := await self._reader.read(_READ):
                self._take(data)
            self.ended = "FIN"
        except Broken as broken:
            self._fault = broken
        except OSError as error:
            self.ended = f"reset ({error})"
        if self._frames.unfinished:
            self.behind_close.append(f"{self._frames.unfinished} bytes of a frame")
        self.exchange.note("received", f"end of the connection: {self.ended or self._fault}")
        self._news.set()

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    def _take(self, data: bytes) -> None:
        self._recorded += len(data)
        if self._recorded > MAX_RECORDED:
            raise Broken(f"the platform sent more than {MAX_RECORDED} bytes")
        for seen in self._frames.feed(data, time.monotonic()):
            if self._close_came:
                self.exchange.note("received", f"after its Close: {seen}", seen.payload)
                self.behind_close.append(str(seen))
                continue
            self.exchange.note("received", str(seen), seen.payload)
            self.frames.append(seen)
            kind = None if seen.is_data else seen.opcode
            self._waiting.setdefault(kind, deque()).append(seen)
            self._react(seen)
        self._news.set()

    def _react(self, seen: SeenFrame) -> None:
        if seen.opcode == Opcode.PING and self.pongs:
            self.send(Opcode.PONG, seen.payload)
        elif seen.opcode == Opcode.CLOSE:
            self._close_came = True
            if self.closes:
                self.send_close(seen.close_code)
                self.finish()  # the server ends TCP (RFC 6455 §7.1.1)


class InstrumentedContainer:
    """A listener in the place of an endpoint's container; port 0 picks a free port.

    The container owns its connections, which end with it.
    """

    def __init__(self, listen: Address = Address("127.0.0.1", 0)) -> None:  # noqa: B008 (a value)
        self.address = listen
        self.answer: Answer = granted
        self._asked: asyncio.Queue[ContainerStream] = asyncio.Queue(BACKLOG)
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._socket = socket.create_server((self.address.host, self.address.port), backlog=BACKLOG)
        self._socket.setblocking(False)
        self.address = Address(self.address.host, self._socket.getsockname()[1])
        self.accept_again()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.accept_no_more()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()

    async def stream(self, timeout: float) -> ContainerStream:
        """Wait for the next connection whose request has come and has been answered.

        Raises:
            Broken: no request for a stream came.
        """
        try:
            async with asyncio.timeout(timeout):
                return await self._asked.get()
        except TimeoutError:
            raise Broken(f"the platform asked for no stream within {timeout:g} s") from None

    def forget(self) -> None:
        """Drop the streams of earlier checks."""
        self.answer = granted
        while not self._asked.empty():
            self._asked.get_nowait()

    def accept_again(self) -> None:
        assert self._socket is not None, "it is entered first"
        self._socket.listen(BACKLOG)
        self._accepting = asyncio.create_task(self._accept(self._socket))

    async def accept_no_more(self) -> None:
        """Leave connections to the kernel, which has room for one unaccepted connection."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
            self._accepting = None
        if self._socket is not None:
            self._socket.listen(0)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            accepted, _ = await loop.sock_accept(listening)
            reader, writer = await asyncio.open_connection(sock=accepted, limit=MAX_HEAD)
            task = asyncio.create_task(self._serve(reader, writer))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = ContainerStream(reader, writer, NotedExchange("the container's side"))
        try:
            try:
                await stream.read_request()
            except Broken:
                return  # there was no request to answer; the check sees that no stream came
            answer = self.answer(stream.head)
            if answer is not None:
                stream.send_raw(answer, answer.split(b"\r\n", 1)[0].decode("latin-1"))
            await self._asked.put(stream)
            await stream.read_on()
            await stream.close()
        finally:
            writer.close()
