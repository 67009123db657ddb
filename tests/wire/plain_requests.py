"""Plain requests in each form that a body comes in, and operations that take them.

The operations stand in for those with bodies and answers in pieces, over the wire of a gateway that
has them as further routes::

    bench = Bench(limit=1000)
    gateway = await gateway_for(routes=bench.routes)
    client = await FORMS["chunked"].connect(gateway)
    client.ask("/gather", body=b"hello")
    assert await client.answer() == (200, b"hello")
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, ClassVar, Self

from partway.gateway.access.authentication import Access
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.request_payloads import (
    NO_PAYLOAD,
    GatheredPayload,
    PayloadRule,
    StreamedPayload,
)
from partway.gateway.http.routes import Leave, Route
from tests.wire.chunked_peers import RawChunkedClient, chunk, chunked_head
from tests.wire.http2_peers import RawHttp2Client
from tests.wire.http2_streams import RawHttp2Stream, bidirectional_request
from tests.wire.peers import RunningGateway

LIMIT = 10_000

Operate = Callable[[Exchange], Awaitable[None]]


class Bench:
    """Operations with bodies; what they saw.

    ``/gather`` answers with the whole body, ``/stream`` with each chunk as it comes, ``/run`` does
    what a test sets as :attr:`run`, and takes its body as the route's rule has it.

    Args:
        limit: of every body.
        within: seconds for a body that is gathered.
        pause: seconds for a chunk of one that is streamed.
        payload: the rule of ``/run``.
        route: further members of every route.

    Attributes:
        exchanges: those that operations have heard of.
        ended: how each operation ended: None, or the exception's type.
        identities: whose they were.
    """

    def __init__(
        self,
        limit: int = LIMIT,
        within: float = 5.0,
        pause: float = 5.0,
        payload: PayloadRule = NO_PAYLOAD,
        **route: Any,
    ) -> None:
        self.limit = limit
        self.pause = pause
        self.run: Operate = self._stream
        self.exchanges: list[Exchange] = []
        self.ended: list[type[BaseException] | None] = []
        self.identities: list[Any] = []
        rules = {
            "gather": (self._gather, GatheredPayload(limit, within)),
            "stream": (self._stream, StreamedPayload(limit, within)),
            "run": (lambda exchange: self.run(exchange), payload),
        }
        self.routes = tuple(
            Route(
                name.title(),
                frozenset({"GET", "HEAD", "POST"}),
                re.compile(f"/{name}"),
                self._noted(name, operate),
                payload=rule,
                leave=Leave.OF_OPERATION,
                **route,
            )
            for name, (operate, rule) in rules.items()
        )

    def _noted(self, name: str, operate: Operate) -> Callable[..., Awaitable[None]]:
        async def operation(exchange: Exchange, identity: Any, _: Mapping[str, str]) -> None:
            self.exchanges.append(exchange)
            self.identities.append(identity)
            identity.check(f"sagemaker:{name}", "*")
            try:
                await operate(exchange)
            except BaseException as error:
                self.ended.append(type(error))
                raise
            self.ended.append(None)

        return operation

    async def _gather(self, exchange: Exchange) -> None:
        exchange.respond(200, await exchange.body(self.limit))

    async def _stream(self, exchange: Exchange) -> None:
        begun = False
        async for piece in exchange.chunks(self.limit, self.pause):
            if not begun:
                await exchange.begin(200)
            begun = True
            await exchange.write(piece)
        if not begun:
            await exchange.begin(200)
        await exchange.end()


#: Nobody asks who sends these.
OPEN_TO_ALL = {"access": Access.ANYONE}


class Client:
    """One connection that asks in one form; a subclass says which."""

    http2: ClassVar[bool] = False

    @classmethod
    async def connect(cls, gateway: RunningGateway, **options: Any) -> Self:
        """Connect to the gateway; it drops the connection in the end."""
        raise NotImplementedError

    def ask(
        self, path: str, body: bytes = b"", more: Iterable[tuple[str, str]] = (), **changes: str
    ) -> None:
        """Send a whole request, or as much of it as the gateway takes now."""
        raise NotImplementedError

    def begin(
        self, path: str, body: bytes, size: int, more: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Send a request's head, and the beginning of a body of ``size`` bytes."""
        raise NotImplementedError

    def go_on(self, body: bytes, *, last: bool = False) -> None:
        raise NotImplementedError

    async def continued(self) -> None:
        """Wait for 100 Continue, which is the first that comes."""
        raise NotImplementedError

    async def answer(self) -> tuple[int, bytes]:
        """Status and body of the whole response.

        Raises:
            EOFError: it is not whole.
        """
        raise NotImplementedError

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of the response."""
        raise NotImplementedError

    async def data(self) -> bytes | None:
        """A piece of the response; None behind its end.

        Raises:
            EOFError: it is not whole.
        """
        raise NotImplementedError

    def leave(self) -> None:
        raise NotImplementedError


class Http1Client(Client):
    wire: RawChunkedClient

    @classmethod
    async def connect(cls, gateway: RunningGateway, **options: Any) -> Self:
        self = cls()
        self.wire = await RawChunkedClient.connect(gateway.port, **options)
        gateway.clients.append(self.wire)
        self._left: int | None = None
        return self

    async def continued(self) -> None:
        assert await self.wire.read_head() == b"HTTP/1.1 100 Continue\r\n\r\n"

    async def answer(self) -> tuple[int, bytes]:
        status, _ = await self.head()
        pieces = []
        while (data := await self.data()) is not None:
            pieces.append(data)
        return status, b"".join(pieces)

    async def head(self) -> tuple[int, dict[str, str]]:
        if self.wire._head is not None:
            return self.wire._head
        head = await self.wire.read_head()
        status_line, *lines = head.decode("latin-1").split("\r\n")[:-2]
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        if "content-length" in headers:
            self._left = int(headers["content-length"])
        self.wire._head = int(status_line.split(" ")[1]), headers
        return self.wire._head

    async def data(self) -> bytes | None:
        if self._left is None:
            return await self.wire.data()
        size, self._left = self._left, 0
        return await self.wire.reader.readexactly(size) if size else None

    def answered(self) -> None:
        """Make room for the response to the next request."""
        self.wire._head, self.wire._size, self.wire.ends = None, None, []

    def leave(self) -> None:
        self.wire.abort()


class WithLength(Http1Client):
    """A body whose length its head states."""

    def ask(
        self, path: str, body: bytes = b"", more: Iterable[tuple[str, str]] = (), **changes: str
    ) -> None:
        self.wire.send(self._head(path, len(body), more, **changes), body)

    def begin(
        self, path: str, body: bytes, size: int, more: Iterable[tuple[str, str]] = ()
    ) -> None:
        self.wire.send(self._head(path, size, more), body)

    def go_on(self, body: bytes, *, last: bool = False) -> None:
        self.wire.send(body)

    def _head(
        self, path: str, size: int, more: Iterable[tuple[str, str]] = (), **changes: str
    ) -> bytes:
        head = chunked_head(bidirectional_request(more, path, **changes))
        return head.replace(b"Transfer-Encoding: chunked", b"Content-Length: %d" % size)


class Chunked(Http1Client):
    def ask(
        self, path: str, body: bytes = b"", more: Iterable[tuple[str, str]] = (), **changes: str
    ) -> None:
        self.wire.request(bidirectional_request(more, path, **changes))
        middle = len(body) // 3
        self.wire.send_chunk(body[:middle])
        self.wire.send_chunk(body[middle:], extension=b";name=value")
        self.wire.end_input(b"x-trailer: ignored\r\n")

    def begin(
        self, path: str, body: bytes, size: int, more: Iterable[tuple[str, str]] = ()
    ) -> None:
        self.wire.request(bidirectional_request(more, path))
        self.wire.send_chunk(body)

    def go_on(self, body: bytes, *, last: bool = False) -> None:
        self.wire.send(chunk(body) if body else b"", b"0\r\n\r\n" if last else b"")


class Http2(Client):
    """Over HTTP/2, without a length; one stream at a time."""

    http2 = True
    stream: RawHttp2Stream
    wire: RawHttp2Client

    @classmethod
    async def connect(cls, gateway: RunningGateway, **options: Any) -> Self:
        self = cls()
        self.wire = await RawHttp2Client.connect(gateway.port, **options)
        gateway.clients.append(self.wire)
        self.wire.start_reading()
        await self.wire.ready()
        return self

    def ask(
        self, path: str, body: bytes = b"", more: Iterable[tuple[str, str]] = (), **changes: str
    ) -> None:
        self.stream = self.wire.request(bidirectional_request(more, path, **changes))
        self.stream.send(body)
        self.stream.end()

    def begin(
        self, path: str, body: bytes, size: int, more: Iterable[tuple[str, str]] = ()
    ) -> None:
        self.stream = self.wire.request(bidirectional_request(more, path))
        self.stream.send(body)

    def go_on(self, body: bytes, *, last: bool = False) -> None:
        self.stream.send(body)
        if last:
            self.stream.end()

    async def continued(self) -> None:
        await self.wire.until(lambda: bool(self.stream.heads), "100 Continue")
        assert self.stream.heads == [[(":status", "100")]]

    async def answer(self) -> tuple[int, bytes]:
        return (await self.stream.head())[0], await self.stream.body()

    async def head(self) -> tuple[int, dict[str, str]]:
        return await self.stream.head()

    async def data(self) -> bytes | None:
        return await self.stream.data()

    def leave(self) -> None:
        self.stream.reset()


class Http2WithLength(Http2):
    """The same, with a length."""

    def ask(
        self, path: str, body: bytes = b"", more: Iterable[tuple[str, str]] = (), **changes: str
    ) -> None:
        super().ask(path, body, [*more, ("content-length", str(len(body)))], **changes)


FORMS: dict[str, type[Client]] = {
    "length": WithLength,
    "chunked": Chunked,
    "http2": Http2,
    "http2-length": Http2WithLength,
}
#: One of each version.
VERSIONS = {name: FORMS[name] for name in ("chunked", "http2")}


class Gate:
    """Something else than the client for an operation to wait for."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def wait(self) -> None:
        self.reached.set()
        await self.opened.wait()
