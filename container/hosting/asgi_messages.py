"""ASGI types, and answers given instead of the app's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from partway.container.serving.exchange import SERVER

#: ASGI 3.0 (https://asgi.readthedocs.io): a connection or request, an event of it, and the two
#: directions between server and app.
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_TEXT = "text/plain; charset=utf-8"


async def answer(send: Send, status: int, body: bytes = b"", content_type: str = _TEXT) -> None:
    """Answer a request; an empty body has no type."""
    headers = [(b"content-length", str(len(body)).encode())]
    if body:
        headers.append((b"content-type", content_type.encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def refuse(send: Send, status: int, reason: str) -> None:
    """Answer a request with a reason in a line of text."""
    await answer(send, status, f"{reason}\n".encode())


async def refuse_upgrade(send: Send, status: int, reason: str) -> None:
    """Answer a WebSocket that has not been accepted, like a request.

    ``websocket.close`` would answer 403 without a reason; uvicorn's extension can send one.
    """
    body = f"{reason}\n".encode()
    headers = [
        (b"server", SERVER.encode()),  # uvicorn adds it to other answers
        (b"content-type", _TEXT.encode()),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})
