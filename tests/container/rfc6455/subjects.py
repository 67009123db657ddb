"""The servers under test, one for each way of writing a handler, and a client that keeps it all."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from partway.container.model import Model
from partway.container.models.echo import Echo
from partway.container.server import ModelServer
from partway.container.stream import Stream
from partway.protocol.limits import LINGER_TIMEOUT
from partway.protocol.parts import PayloadPart
from tests.container.rfc6455.judges import Plain, Verdict, judge
from tests.container.wire import RawClient, raw_client, until, upgrade_request
from tests.frame_factory import BINARY, CONTINUATION, KEY, PING, TEXT, RawFrame, close, frame

#: A frame, and a Close, as a client sends them.
sent = partial(frame, mask=KEY)
sent_close = partial(close, mask=KEY)

#: How many bytes leave at a time; None for all of them.
WHOLE = None
BYTE_BY_BYTE = 1

#: A message whose handler returns, without an answer: the server is the first to close.
GOODBYE = b"goodbye"

#: Less than the time after which the server would end a connection that hangs.
PATIENCE = LINGER_TIMEOUT * 0.8


@dataclass
class Seen:
    """What one stream's handler has seen.

    Attributes:
        payloads: of the messages, or of the parts.
        ended: whether the handler is done.
    """

    payloads: list[bytes] = field(default_factory=list)
    ended: bool = False


class Recording(Model):
    """A model that keeps what its handlers see, by the id of their stream.

    Attributes:
        may_end: while it is clear, handlers have more to do when their input is over.
    """

    def __init__(self) -> None:
        self.seen: dict[str, Seen] = {}
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def stream(self, stream: Stream) -> None:
        seen = self.seen[stream.id] = Seen()
        try:
            await self.echo(stream, seen)
            await self.may_end.wait()
        finally:
            seen.ended = True

    async def echo(self, stream: Stream, seen: Seen) -> None:
        raise NotImplementedError


class MessageEcho(Recording):
    """Takes messages, and sends them back whole."""

    async def echo(self, stream: Stream, seen: Seen) -> None:
        async for message in stream.messages():
            payload = message.encode() if isinstance(message, str) else message
            seen.payloads.append(payload)
            if payload == GOODBYE:
                return
            await stream.send(message)


class FragmentEcho(Recording):
    """The echo that comes with the runtime: each frame comes back as it came."""

    async def echo(self, stream: Stream, seen: Seen) -> None:
        await Echo().stream(_Watched(stream, seen))  # type: ignore[arg-type]


class _Watched:
    """A stream, as far as echo uses it."""

    def __init__(self, stream: Stream, seen: Seen) -> None:
        self.send_part = stream.send_part
        self._fragments = stream.fragments()
        self._seen = seen

    async def fragments(self) -> AsyncIterator[PayloadPart]:
        async for part in self._fragments:
            self._seen.payloads.append(part.payload)
            if part.payload == GOODBYE:
                return
            yield part


@dataclass
class Subject:
    """A server under test.

    Attributes:
        server: in this process.
        port: its port.
        model: what it serves.
    """

    server: ModelServer
    port: int
    model: Recording
    _ids: Any = field(default_factory=itertools.count)

    def echoed(self, *frames: Plain) -> list[Plain]:
        """The data frames that come back for the data frames of whole messages."""
        if isinstance(self.model, FragmentEcho):
            return list(frames)
        whole: list[Plain] = []
        begun: Plain | None = None
        for opcode, payload, fin in frames:
            if begun is not None:
                opcode, payload = begun[0], begun[1] + payload
            begun = (opcode, payload, fin)
            if fin:
                whole.append(begun)
                begun = None
        return whole

    @asynccontextmanager
    async def stream(self) -> AsyncIterator[Peer]:
        """A client whose upgrade has been granted; at the end nothing is left of its stream."""
        id = f"stream-{next(self._ids)}"
        open_before = set(self.server.runtime.activity.streams)
        async with raw_client(self.port) as client:
            client.send(upgrade_request(X_Amzn_SageMaker_Request_Id=id))
            head = await client.head()
            assert head.startswith(b"HTTP/1.1 101 "), head
            await until(lambda: id in self.model.seen)
            yield Peer(client, self.model.seen[id])
        await until(lambda: self.server.runtime.activity.streams <= open_before)

    async def exchange(self, *pieces: bytes, chop: int | None = WHOLE) -> Verdict:
        """Say everything, in chops of so many bytes, and judge all that comes back."""
        async with self.stream() as peer:
            await peer.send(b"".join(pieces), chop)
            return await peer.verdict()

    async def refuse(
        self, bad: bytes, code: int, *, inside: bool = False, chop: int | None = WHOLE
    ) -> None:
        """Hold the server to refusing some bytes with a Close.

        A message goes before them, and counts; what comes behind them has no effect.

        Args:
            bad: the bytes.
            code: of the Close.
            inside: whether they come in the middle of a fragmented message.
            chop: how many bytes leave at a time.
        """
        begun = [(BINARY, b"begun", False)] if inside else []
        async with self.stream() as peer:
            await peer.send(sent(TEXT, b"before"))
            await peer.next(TEXT)
            behind = sent(PING, b"behind") + sent(TEXT, b"behind") + sent_close(1000)
            await peer.send(wire(begun) + bad + behind, chop)
            verdict = await peer.verdict()
        assert verdict.close[0] == code
        assert verdict.close[1], "no reason"
        assert verdict.pongs == []
        # Nobody owes an answer to what came in the same read as the fault.
        first, *others = verdict.data
        assert first == (TEXT, b"before", True)
        assert others in ([], self.echoed(*begun))
        assert peer.seen.payloads in ([b"before"], [b"before", *(each[1] for each in begun)])


class Peer:
    """The client of one stream. Every byte that it receives is kept for the judges."""

    def __init__(self, client: RawClient, seen: Seen) -> None:
        # Without this a chop may wait for the one before it to be acknowledged.
        sock = client.writer.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client = client
        self._kept = client.reader = _Kept(client.reader)  # type: ignore[assignment]
        self.seen = seen

    async def send(self, data: bytes, chop: int | None = WHOLE) -> None:
        """Send bytes; the server may read each chop by itself."""
        for at in range(0, len(data), chop or len(data) or 1):
            self._client.send(data[at : at + (chop or len(data))])
            if chop is not None:
                await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE):
            await self._client.writer.drain()

    async def next(self, opcode: int) -> RawFrame:
        """The next frame with an opcode; those before it are for the judges alone."""
        async with asyncio.timeout(PATIENCE):
            while (found := await self._client.frame()).opcode != opcode:
                pass
        return found

    async def verdict(self) -> Verdict:
        """Wait for the server to end the connection, and judge all that it sent."""
        async with asyncio.timeout(PATIENCE):
            await self._client.eof()
        await until(lambda: self.seen.ended)
        return judge(bytes(self._kept.received))


class _Kept:
    """A reader's bytes, and all of them again."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self.received = bytearray()

    async def read(self, size: int = -1) -> bytes:
        data = await self._reader.read(size)
        self.received += data
        return data


def fragments(opcode: int, pieces: Iterable[bytes]) -> list[Plain]:
    """One message's frames, a piece in each."""
    opcodes = itertools.chain((opcode,), itertools.repeat(CONTINUATION))
    pieces = list(pieces)
    fins = [False] * (len(pieces) - 1) + [True]
    return list(zip(opcodes, pieces, fins, strict=False))


def wire(frames: Iterable[Plain]) -> bytes:
    """Frames as a client sends them."""
    return b"".join(sent(opcode, payload, fin=fin) for opcode, payload, fin in frames)
