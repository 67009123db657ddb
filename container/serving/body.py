"""The body of a request to ``/invocations``: as it arrives, without its coding, or whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable

from partway.container.errors import BodyError
from partway.container.serving.exchange import RuntimeExchange
from partway.protocol.http.content_codings import (
    PACKED_PIECE,
    BodyDecoder,
    CodingFault,
    DecodedTooLarge,
)
from partway.protocol.http1.request import BodyBroken
from partway.protocol.limits import FRAMES_PER_TURN, JOIN_UP_TO

_ANSWERED = "the request has been answered: its body must be taken before"


class IncomingBody(AsyncIterator[bytes]):
    """A body as it arrives; no item spans two chunks, if it comes in chunks.

    One task at a time may take it, until the request is answered. To take it raises:
        BodyError: it is too large (413), too slow (408), or not what the request's head announced
            (400).
        ClientLeft: the client has left.
        RuntimeError: another task waits for it, or the request has been answered.

    Args:
        exchange: the request's, of whose body nothing has been taken.
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
        """End it: the request has been answered."""
        self._over = True

    async def whole(self) -> bytes:
        """What has not been taken, in one piece; raises as taking it does."""
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
            await asyncio.sleep(0)  # one read may hold thousands, and others want their turn
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
            raise BodyError(400, "the body is cut, or not framed as HTTP asks") from error
        finally:
            self._awaited = False
            # Time spent on the model, or on a client that is slow to read, is not the body's.
            self._left -= clock() - asked

    def _check(self) -> None:
        """Refuse whoever may not take it now."""
        if self._over:
            raise RuntimeError(_ANSWERED)
        if self._awaited:
            raise RuntimeError("another task waits for the request's body: one may at a time")

    def _too_large(self) -> BodyError:
        return BodyError(413, f"the body is larger than {self._max_body} bytes")


class DecodedBody(AsyncIterator[bytes]):
    """A body without its content coding, unpacked no further than it is taken.

    To take it raises as taking the coded body does, and:
        BodyError: it is not in its coding (400), or unfolds to more than the limit (413).

    Args:
        body: as it comes, of which nothing has been taken.
        coding: its ``Content-Encoding``, which must name a coding.
        max_body: most bytes of it without the coding.

    Raises:
        UnknownCoding: the coding is not known here, or there are several.
    """

    __slots__ = ("_body", "_decoder", "_packed")

    def __init__(self, body: IncomingBody, coding: str, max_body: int) -> None:
        self._body = body
        self._packed = memoryview(b"")
        self._decoder = BodyDecoder(coding, max_body)

    async def __anext__(self) -> bytes:
        await asyncio.sleep(0)  # each piece takes up to a millisecond, and others want their turn
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
        """Give the decoder more packed bytes; returns whether there were any."""
        if self._packed:
            await asyncio.sleep(0)
        else:
            self._packed = memoryview(await anext(self._body, b""))
        self._decoder.feed(bytes(self._packed[:PACKED_PIECE]))
        self._packed, more = self._packed[PACKED_PIECE:], bool(self._packed)
        return more


async def read_whole(body: AsyncIterable[bytes]) -> bytes:
    """Take all that is left of a body, in one piece.

    Args:
        body: a request's, or an author's own; raises as taking it does.
    """
    if isinstance(body, IncomingBody):
        return await body.whole()
    return b"".join([item async for item in body])
