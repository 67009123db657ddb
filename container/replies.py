"""What a model answers: whole, or as it is made."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping

from partway.container.model import Answer, Reply
from partway.container.serving.exchange import TEXT, RuntimeExchange

_END = object()
_BYTES = "application/octet-stream"
#: What a header is named by, and what its value has none of (RFC 9110 §5.1, §5.5).
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
#: Headers of a response that are the runtime's.
_OURS = frozenset({"date", "server"})


async def send(
    exchange: RuntimeExchange, answer: Answer, on_head: Callable[[], Mapping[str, str]]
) -> None:
    """Send what a model answers, chunk by chunk where it has no length (clause 1.1-5).

    The response begins with the first item of a body: a failure before that can still be answered.

    Args:
        exchange: what is answered.
        answer: what the model's ``invoke`` returned.
        on_head: called before the head leaves, for headers of the runtime's; it may raise.

    Raises:
        TypeError: the answer, or an item of its body, is neither text nor bytes.
        ValueError: the body is not as long as the reply says.
        ClientLeft: the client has left. The task that answers is cancelled besides, as it is where
            the client takes nothing for the stall timeout.
    """
    reply = answer if isinstance(answer, Reply) else Reply(answer)
    body = reply.body
    if not isinstance(body, bytes | str) and isinstance(body, AsyncIterable):
        await _send_items(exchange, reply, aiter(body), on_head)
        return
    kind = TEXT if isinstance(body, str) else _BYTES
    whole = as_bytes(body)
    exchange.respond(reply.status, whole, _headers(reply, kind, on_head()))
    await exchange.room()


async def _send_items(
    exchange: RuntimeExchange,
    reply: Reply,
    items: AsyncIterator[bytes | str],
    on_head: Callable[[], Mapping[str, str]],
) -> None:
    """Send a body as it is made."""
    try:
        first = await anext(items, b"")
        data = as_bytes(first)
        kind = TEXT if isinstance(first, str) else _BYTES
        exchange.begin(reply.status, _headers(reply, kind, on_head()), reply.length)
        await _send_rest(exchange, data, items, reply.length)
    finally:
        close = getattr(items, "aclose", None)  # a generator's, or that of a worker's items
        if close is not None:
            await close()


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
        # The next response would be taken for the rest of this one.
        raise ValueError(f"the reply's body is not the {length} bytes it announced")
    await exchange.end()


def _headers(reply: Reply, kind: str, further: Mapping[str, str]) -> dict[str, str]:
    """The headers of an answer; what the runtime says itself, nobody else does."""
    headers: dict[str, str] = {}
    for name, value in (("Content-Type", reply.content_type or kind), *reply.headers.items()):
        if _NAME.fullmatch(name) is None or _CONTROL.search(value) is not None:
            raise ValueError(f"a reply's header {name!r} must be a name and one line of text")
        lower = name.lower()
        if lower == "content-type":
            headers["Content-Type"] = value
        elif lower not in _OURS:
            headers[name] = value
    return {**headers, **further}


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
