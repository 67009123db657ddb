"""Sending a model's reply: whole, or item by item."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable

from partway.container.limits import EVENT_COMMENT_INTERVAL
from partway.container.model import Answer, Reply
from partway.container.serving.exchange import TEXT, RuntimeExchange
from partway.protocol.errors import ClientLeft

_END = object()
#: The media type of server-sent events, and a comment, which clients ignore.
_EVENT_STREAM = "text/event-stream"
_COMMENT = b":\n\n"
_BYTES = "application/octet-stream"
#: A valid header name, and the characters that a value must not have (RFC 9110 §5.1, §5.5).
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
#: Response headers that only the runtime sets.
_OURS = frozenset({"date", "server"})


async def send(
    exchange: RuntimeExchange,
    answer: Answer,
    on_first: Callable[[], None],
) -> None:
    """Send a model's answer, in chunks if it has no length (clause 1.1-5).

    The response begins with the first item of a body, so that an earlier failure can still be
    answered. An event stream that is silent for EVENT_COMMENT_INTERVAL begins with a comment.
    ``on_first`` is called when the first item or the whole body is available.

    Raises:
        TypeError: the answer, or an item of its body, is neither text nor bytes.
        ValueError: the body's length differs from the reply's ``length``.
        ClientLeft: the client has left. The answering task is cancelled too, also after a client
            has taken nothing for the stall timeout.
    """
    reply = answer if isinstance(answer, Reply) else Reply(answer)
    body = reply.body
    if not isinstance(body, bytes | str) and isinstance(body, AsyncIterable):
        await _send_items(exchange, reply, aiter(body), on_first)
        return
    on_first()
    kind = TEXT if isinstance(body, str) else _BYTES
    whole = as_bytes(body)
    exchange.respond(reply.status, whole, _headers(reply, kind))
    await exchange.room()


async def _send_items(
    exchange: RuntimeExchange,
    reply: Reply,
    items: AsyncIterator[bytes | str],
    on_first: Callable[[], None],
) -> None:
    try:
        if _is_event_stream(reply):
            first = await _first_event(exchange, reply, items)
        else:
            first = await anext(items, b"")
        data = as_bytes(first)
        on_first()
        if not exchange.begun:
            kind = TEXT if isinstance(first, str) else _BYTES
            exchange.begin(reply.status, _headers(reply, kind), reply.length)
        await _send_rest(exchange, data, items, reply.length)
    finally:
        close = getattr(items, "aclose", None)  # of a generator, or of a worker's items
        if close is not None:
            await close()


def _is_event_stream(reply: Reply) -> bool:
    """Whether comments may be inserted: the body has server-sent events, and no stated length."""
    media_type, _, _ = (reply.content_type or "").partition(";")
    return media_type.strip().lower() == _EVENT_STREAM and reply.length is None


async def _first_event(
    exchange: RuntimeExchange, reply: Reply, items: AsyncIterator[bytes | str]
) -> bytes | str:
    """Wait for the first item of an event stream; send comments meanwhile.

    The model's iterator stays in this task, because time limits in its code belong to one task.
    """

    async def comment() -> None:
        while True:
            await asyncio.sleep(EVENT_COMMENT_INTERVAL)
            if not exchange.begun:
                exchange.begin(reply.status, _headers(reply, _BYTES), None)
            await exchange.send(_COMMENT)

    commenting = asyncio.create_task(comment(), name="comments of an event stream")
    try:
        return await anext(items, b"")
    finally:
        commenting.cancel()
        await asyncio.wait((commenting,))
        trouble = None if commenting.cancelled() else commenting.exception()
        if trouble is not None and not isinstance(trouble, ClientLeft):
            raise trouble


async def _send_rest(
    exchange: RuntimeExchange, data: bytes, items: AsyncIterator[bytes | str], length: int | None
) -> None:
    sent = 0
    while True:
        sent += len(data)
        if length is not None and sent > length:
            break
        await exchange.send(data)
        item = await anext(items, _END)
        if item is _END:
            break
        data = as_bytes(item)
    if length is not None and sent != length:
        # A client would take the next response for the rest of this one.
        raise ValueError(f"the reply announced {length} bytes, but its body has another length")
    await exchange.end()


def _headers(reply: Reply, kind: str) -> dict[str, str]:
    """Return the headers of an answer, without those that the runtime sets itself."""
    headers: dict[str, str] = {}
    for name, value in (("Content-Type", reply.content_type or kind), *reply.headers.items()):
        if _NAME.fullmatch(name) is None or _CONTROL.search(value) is not None:
            raise ValueError(f"a reply's header {name!r} must be a name and one line of text")
        lower = name.lower()
        if lower == "content-type":
            headers["Content-Type"] = value
        elif lower not in _OURS:
            headers[name] = value
    return headers


def as_bytes(item: object) -> bytes:
    """Convert an item of a body to bytes.

    Raises:
        TypeError: the item is neither text nor bytes.
    """
    if isinstance(item, str):
        return item.encode()
    if isinstance(item, bytes | bytearray | memoryview):
        return bytes(item)
    raise TypeError(f"an answer must be bytes, str or Reply, not {type(item).__name__}")
