"""Bodies of ``/invocations``: the request's as it arrives, the reply's as it is made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping

from aiohttp import web

from partway.container.errors import BodyError
from partway.container.limits import HEAD_JOINED_UP_TO
from partway.container.model import Answer, Reply
from partway.protocol.limits import FRAMES_PER_TURN, STALL_TIMEOUT

#: What responses name as their server, in place of the library that the runtime is built on.
SERVER = "partway-container"
_END = object()
_BYTES = "application/octet-stream"
_TEXT = "text/plain; charset=utf-8"
_TAKES_NOTHING = "the client takes nothing of the response"


async def received(
    request: web.BaseRequest, max_body: int, patience: float
) -> AsyncGenerator[bytes, None]:
    """A request's body as it arrives; no item spans two chunks, if it comes in chunks.

    Args:
        request: whose body has not been read.
        max_body: largest body, in bytes.
        patience: seconds spent waiting for the body in all.

    Raises:
        BodyError: the body is too large (413), too slow (408), or not what the request's head
            announced (400).
    """
    clock = asyncio.get_running_loop().time
    content, length = request.content, request.content_length
    received = chunks = 0
    left = patience
    while not content.at_eof():
        asked = clock()
        try:
            if length is not None and content.is_eof():
                data = await content.readany()  # which it need not wait for
            else:
                async with asyncio.timeout(left):
                    data, _ = await content.readchunk()
        except TimeoutError:
            raise BodyError(408, f"the body did not come within {patience:g} s") from None
        except web.RequestPayloadError as error:
            raise BodyError(400, "the body is cut, or not framed as HTTP asks") from error
        # Time spent on the model, or on a client that is slow to read, is not the body's.
        left -= clock() - asked
        received += len(data)
        if received > max_body:
            raise BodyError(413, f"the body is larger than {max_body} bytes")
        chunks += 1
        if not chunks % FRAMES_PER_TURN:
            await asyncio.sleep(0)  # one read may hold thousands, and others want their turn
        if data:
            yield data


def refusal(status: int, reason: str, **headers: str) -> web.Response:
    """An answer that says no, in a line of text."""
    return web.Response(status=status, text=f"{reason}\n", headers={"Server": SERVER, **headers})


def unread(status: int, reason: str, **headers: str) -> web.Response:
    """A refusal that leaves a body unread: the connection can carry nothing more."""
    response = refusal(status, reason, **headers)
    response.force_close()
    return response


class Answering:
    """One answer on its way to the client.

    Attributes:
        response: None until the response's head has left, with the first item of the body: a
            failure before that can still be answered.
    """

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self.response: web.StreamResponse | None = None

    async def send(
        self, answer: Answer, on_head: Callable[[], Mapping[str, str]]
    ) -> web.StreamResponse:
        """Send what a model answers, chunk by chunk where it has no length (clause 1.1-5).

        Args:
            answer: what the model's ``invoke`` returned.
            on_head: called before the head leaves, for headers of the runtime's; it may raise.

        Raises:
            TypeError: the answer, or an item of its body, is neither text nor bytes.
            ValueError: the body is not as long as the reply says.
            ConnectionError: the client left, or took nothing for the stall timeout.
        """
        reply = answer if isinstance(answer, Reply) else Reply(answer)
        if isinstance(reply.body, AsyncIterable):
            await self._send_items(reply, aiter(reply.body), on_head)
        else:
            await self._send_whole(reply, as_bytes(reply.body), on_head)
        assert self.response is not None, "it has begun"
        return self.response

    def cut(self, why: str) -> ConnectionError:
        """Abort the connection under a response that cannot be finished: a clean end would lie."""
        if self._request.transport is not None:
            self._request.transport.abort()
        return ConnectionResetError(why)

    async def _send_whole(
        self, reply: Reply, whole: bytes, on_head: Callable[[], Mapping[str, str]]
    ) -> None:
        """Send a body that is there: with its head if it is short, and at once if it may."""
        kind = _TEXT if isinstance(reply.body, str) else _BYTES
        with_body = 0 < len(whole) <= HEAD_JOINED_UP_TO
        await self._begin(reply, len(whole), kind, on_head(), with_body=with_body)
        assert self.response is not None, "it has begun"
        try:
            async with asyncio.timeout(STALL_TIMEOUT):
                await self.response.write_eof(whole)
        except TimeoutError as error:
            raise self.cut(_TAKES_NOTHING) from error

    async def _send_items(
        self,
        reply: Reply,
        items: AsyncIterator[bytes | str],
        on_head: Callable[[], Mapping[str, str]],
    ) -> None:
        """Send a body as it is made."""
        length = reply.length
        try:
            first = await anext(items, b"")
            data = as_bytes(first)
            further = on_head()
            most = HEAD_JOINED_UP_TO if length is None else min(HEAD_JOINED_UP_TO, length)
            with_body = 0 < len(data) <= most
            kind = _TEXT if isinstance(first, str) else _BYTES
            await self._begin(reply, length, kind, further, with_body=with_body)
            try:
                await self._rest(data, items, length)
            except TimeoutError as error:
                raise self.cut(_TAKES_NOTHING) from error
        finally:
            close = getattr(items, "aclose", None)  # a generator's, or that of a worker's items
            if close is not None:
                await close()

    async def _begin(
        self,
        reply: Reply,
        length: int | None,
        content_type: str,
        further: Mapping[str, str],
        *,
        with_body: bool,
    ) -> None:
        """Begin the response: its head leaves now, or with a body's first item that comes next."""
        headers = {"Content-Type": reply.content_type or content_type, **reply.headers, **further}
        response = web.StreamResponse(status=reply.status, headers={**headers, "Server": SERVER})
        if length is not None:
            response.content_length = length
        # aiohttp's own whole responses do so, which have no items. It copies what goes together.
        response._send_headers_immediately = not with_body  # noqa: SLF001
        await response.prepare(self._request)
        self.response = response

    async def _rest(
        self, data: bytes, items: AsyncIterator[bytes | str], length: int | None
    ) -> None:
        response = self.response
        assert response is not None, "it has begun"
        sent = 0
        while True:
            sent += len(data)
            if length is not None and sent > length:
                break
            async with asyncio.timeout(STALL_TIMEOUT):
                await response.write(data)
            item = await anext(items, _END)
            if item is _END:
                break
            data = as_bytes(item)
        if length is not None and sent != length:
            # The next response would be taken for the rest of this one.
            raise ValueError(f"the reply's body is not the {length} bytes it announced")
        async with asyncio.timeout(STALL_TIMEOUT):
            await response.write_eof()


def as_bytes(item: object) -> bytes:
    """A piece of a body.

    Raises:
        TypeError: the item is neither text nor bytes.
    """
    if isinstance(item, str):
        return item.encode()
    if isinstance(item, bytes | bytearray | memoryview):
        return bytes(item)
    raise TypeError(f"an answer must be bytes, str or Reply, not {type(item).__name__}")


async def once(whole: bytes) -> AsyncGenerator[bytes, None]:
    """A body that is there already."""
    yield whole
