"""The body of a request to ``/invocations``: as it arrives, decoded, or whole."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

from partway.container.errors import BodyError, Busy
from partway.container.limits import MAX_HELD_BODIES
from partway.container.serving.exchange import RuntimeExchange
from partway.protocol.http.content_codings import (
    PACKED_PIECE,
    BodyDecoder,
    CodingFault,
    DecodedTooLarge,
)
from partway.protocol.http1.request import BodyBroken, Http1Head, Http1Request
from partway.protocol.limits import FRAMES_PER_TURN, JOIN_UP_TO, KIB, PART_OVERHEAD

#: Largest cost of parsing instances on the loop, in bytes of numbers: 2 to 4 ms. Above it they are
#: parsed on a thread.
_NUMBERS_AT_ONCE: Final = 1024 * KIB

_ANSWERED = "the request has been answered: its body must be read before the answer"


class ChunkedRequest(Http1Request):
    """A request's head, and the received bytes of its body; chunks are never joined.

    So no item for the model spans two chunks (clause 1.1-5). A body of a stated length has no
    chunks, and its received bytes are one piece.

    Attributes:
        held: received bytes that nobody has taken. A chunk counts ``PART_OVERHEAD`` bytes more than
            it has, so that a flood of tiny chunks is held back too.
    """

    __slots__ = ("_chunks",)

    def __init__(self, head: Http1Head) -> None:
        super().__init__(head)
        self._chunks: deque[bytes] = deque()

    def add(self, data: bytes) -> None:
        """Add bytes of the body; from a single chunk, if it is chunked."""
        if self.head.length is not None:
            super().add(data)
            return
        self.received += len(data)
        if not self.dropped:
            self._chunks.append(data)
            self.held += len(data) + PART_OVERHEAD

    def take(self) -> bytes:
        """Return the oldest untaken bytes; from a single chunk, if the body is chunked."""
        if not self._chunks:
            return super().take()
        chunk = self._chunks.popleft()
        self.held -= len(chunk) + PART_OVERHEAD
        return chunk

    def drop(self) -> None:
        """Free the held bytes, and drop all further ones."""
        self._chunks.clear()
        super().drop()


class IncomingBody(AsyncIterator[bytes]):
    """A body as it arrives; no item spans two chunks, if it is chunked.

    One task at a time may take it, until the request is answered. Taking it raises:
        BodyError: it is too large (413), too slow (408), or differs from what the head announced
            (400).
        ClientLeft: the client has left.
        RuntimeError: another task waits for it, or the request has been answered.

    Args:
        exchange: the request's exchange; nothing of its body has been taken.
        max_body: largest body, in bytes.
        patience: seconds spent waiting for the body in all.
    """

    __slots__ = (
        *("_awaited", "_exchange", "_items", "_left", "_max_body", "_over", "_patience", "_size"),
    )

    def __init__(self, exchange: RuntimeExchange, max_body: int, patience: float) -> None:
        self._exchange = exchange
        self._max_body = max_body
        self._patience = self._left = patience
        self._size = self._items = 0
        self._awaited = self._over = False

    def close(self) -> None:
        """End the body: the request has been answered."""
        self._over = True

    async def whole(self) -> bytes:
        """Return the rest of the body in one piece; raises as taking it does."""
        exchange = self._exchange
        if self._items or exchange.length is None:
            return b"".join([item async for item in self])
        if exchange.length > self._max_body:
            raise self._too_large()
        self._check()
        self._items = 1
        if (data := exchange.taken_whole()) is None:
            data = await self._in_time(exchange.read_whole())
        return data

    async def __anext__(self) -> bytes:
        self._check()
        exchange = self._exchange
        if (data := exchange.taken()) is None:
            data = await self._in_time(exchange.read())
        if not data:
            raise StopAsyncIteration
        self._size += len(data)
        if self._size > self._max_body:
            raise self._too_large()
        self._items += 1
        if not self._items % FRAMES_PER_TURN:
            await asyncio.sleep(0)  # one read may hold thousands; other tasks need turns
        return data

    async def _in_time(self, coming: Awaitable[bytes]) -> bytes:
        clock = asyncio.get_running_loop().time
        asked = clock()
        self._awaited = True
        try:
            async with asyncio.timeout(self._left):
                return await coming
        except TimeoutError:
            raise BodyError(408, f"the body did not come within {self._patience:g} s") from None
        except BodyBroken as error:
            if self._over:
                raise RuntimeError(_ANSWERED) from None
            raise BodyError(400, "the body is cut off, or its HTTP framing is invalid") from error
        finally:
            self._awaited = False
            # The time that the model or a slow reader takes does not count for the body.
            self._left -= clock() - asked

    def _check(self) -> None:
        if self._over:
            raise RuntimeError(_ANSWERED)
        if self._awaited:
            raise RuntimeError(
                "another task is reading the request's body: only one may read it at a time"
            )

    def _too_large(self) -> BodyError:
        return BodyError(413, f"the body is larger than {self._max_body} bytes")


class DecodedBody(AsyncIterator[bytes]):
    """A body without its content coding, decoded only as far as it is taken.

    Taking it raises as taking the coded body does, and:
        BodyError: it is not in its coding (400), or is over the limit once decoded (413).

    Args:
        body: the coded body; nothing of it has been taken.
        coding: its ``Content-Encoding``, which must name a coding.
        max_body: most bytes of the decoded body.

    Raises:
        UnknownCoding: the coding is not supported, or there are several.
    """

    __slots__ = ("_body", "_decoder", "_packed")

    def __init__(self, body: IncomingBody, coding: str, max_body: int) -> None:
        self._body = body
        self._packed = memoryview(b"")
        self._decoder = BodyDecoder(coding, max_body)

    async def __anext__(self) -> bytes:
        await asyncio.sleep(0)  # a piece takes up to 1 ms; other tasks need turns
        try:
            while not (piece := self._decoder.piece(JOIN_UP_TO)):
                if not await self._feed():
                    self._decoder.end()
                    raise StopAsyncIteration
        except DecodedTooLarge as fault:
            raise BodyError(413, f"the body: {fault}") from None
        except CodingFault as fault:
            raise BodyError(400, f"the body: {fault}") from None
        return piece

    async def _feed(self) -> bool:
        """Give the decoder more packed bytes; return whether there were any."""
        if self._packed:
            await asyncio.sleep(0)
        else:
            self._packed = memoryview(await anext(self._body, b""))
        self._decoder.feed(bytes(self._packed[:PACKED_PIECE]))
        self._packed, more = self._packed[PACKED_PIECE:], bool(self._packed)
        return more


async def read_whole(body: AsyncIterable[bytes]) -> bytes:
    """Take the rest of a body, in one piece.

    Args:
        body: a request's, or an author's own; raises as taking it does.
    """
    if isinstance(body, IncomingBody):
        return await body.whole()
    return b"".join([item async for item in body])


class HeldBodies:
    """Counts the bytes of bodies that arrive, or wait for a worker, or are being computed."""

    def __init__(self) -> None:
        self._held = 0

    @asynccontextmanager
    async def whole(self, body: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        """Read a body; its bytes count until the block ends.

        Raises:
            Busy: all bodies together exceed :data:`~partway.container.limits.MAX_HELD_BODIES`.
        """
        held, size = bytearray(), 0
        try:
            async for chunk in body:
                held += chunk
                size += len(chunk)
                self._count(len(chunk))
            whole = bytes(held)
            held.clear()  # or the body would be there twice
            yield whole
        finally:
            self._held -= size

    @contextmanager
    def counting(self, size: int) -> Iterator[None]:
        """Count bytes that were made from a body, until the block ends.

        Raises:
            Busy: as :meth:`whole`.
        """
        try:
            self._count(size)
            yield
        finally:
            self._held -= size

    def _count(self, size: int) -> None:
        self._held += size
        if self._held > MAX_HELD_BODIES:
            raise Busy(f"the bodies of all requests under way exceed {MAX_HELD_BODIES} bytes")


class PredictBody:
    """One request's body as a prediction request; it is parsed once."""

    def __init__(self) -> None:
        self._instances: list[Any] | None = None

    async def instances(self, body: AsyncIterable[bytes]) -> list[Any]:
        """Return the instances; later calls return the same list.

        Args:
            body: the body; nothing of it has been taken, except by an earlier call.

        Raises:
            BodyError: it is not a prediction request (400), or cannot be read.
        """
        from partway.protocol.prediction.bodies import (  # most containers do not need it
            PredictionFault,
            read_instances,
        )

        if self._instances is None:
            text = await read_whole(body)
            try:
                found = read_instances(text, effort=_NUMBERS_AT_ONCE)
                if found is None:
                    found = await asyncio.to_thread(read_instances, text)
            except PredictionFault as fault:
                raise BodyError(400, str(fault)) from None
            assert found is not None, "it may take as long as it takes"
            self._instances = found
        return self._instances
