"""The body of a request to ``/invocations``: as it arrives, or all of it at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from partway.container.errors import BodyError
from partway.container.serving.exchange import HttpExchange
from partway.protocol.http1.request import BodyBroken
from partway.protocol.limits import FRAMES_PER_TURN


class IncomingBody(AsyncIterator[bytes]):
    """A body as it arrives; no item spans two chunks, if it comes in chunks.

    Taking it raises :class:`BodyError` where it is too large (413), too slow (408), or not what the
    request's head announced (400), and ``ClientLeft`` where the client has left.

    Args:
        exchange: the request's, of whose body nothing has been taken.
        max_body: largest body, in bytes; one that is stated to be larger is never taken.
        patience: seconds spent waiting for the body in all.
    """

    __slots__ = ("_exchange", "_items", "_left", "_made", "_max_body", "_patience", "_size")

    def __init__(self, exchange: HttpExchange, max_body: int, patience: float) -> None:
        self._exchange = exchange
        self._max_body = max_body
        self._patience = self._left = patience
        self._size = self._items = 0
        self._made: bytes | None = None

    def become(self, made: bytes) -> None:
        """Have a body that has been taken be this, which was made of it."""
        self._made = made

    async def whole(self) -> bytes:
        """What has not been taken, all in one piece."""
        if self._made is None and not self._items and self._exchange.length is not None:
            self._items = 1
            if (data := self._exchange.taken_whole()) is None:
                data = await self._in_time(whole=True)
            return data
        return b"".join([item async for item in self])

    async def __anext__(self) -> bytes:
        data: bytes | None
        if self._made is not None:
            data, self._made = self._made, b""
        elif (data := self._exchange.taken()) is None:
            data = await self._in_time(whole=False)
        if not data:
            raise StopAsyncIteration
        self._size += len(data)
        if self._size > self._max_body and self._made is None:
            raise BodyError(413, f"the body is larger than {self._max_body} bytes")
        self._items += 1
        if not self._items % FRAMES_PER_TURN:
            await asyncio.sleep(0)  # one read may hold thousands, and others want their turn
        return data

    async def _in_time(self, *, whole: bool) -> bytes:
        clock = asyncio.get_running_loop().time
        asked = clock()
        try:
            async with asyncio.timeout(self._left):
                return await (self._exchange.read_whole() if whole else self._exchange.read())
        except TimeoutError:
            raise BodyError(408, f"the body did not come within {self._patience:g} s") from None
        except BodyBroken as error:
            raise BodyError(400, "the body is cut, or not framed as HTTP asks") from error
        finally:
            # Time spent on the model, or on a client that is slow to read, is not the body's.
            self._left -= clock() - asked
