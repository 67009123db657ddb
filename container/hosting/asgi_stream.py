"""A WebSocket of a hosted app, with a defined end."""

from __future__ import annotations

import asyncio

from partway.container.errors import reason_of
from partway.container.hosting.asgi_messages import (
    App,
    Message,
    Receive,
    Scope,
    Send,
    refuse_upgrade,
)
from partway.protocol.limits import LINGER_TIMEOUT
from partway.protocol.websocket.close_codes import INTERNAL_ERROR, NORMAL, clip


class StreamOver(ConnectionError):
    """The app sends on a stream that the server has closed."""


class HostedStream:
    """One WebSocket, between uvicorn and the app.

    Rules of the end:
        1. The first Close ends the stream. A Close of the app after ours is dropped, and any other
           message of the app raises.
        2. An app that returns without a Close gets 1000, one that raises gets 1011 and a reason.
           uvicorn would drop the connection in both cases.
        3. Before the stream is accepted, an HTTP answer takes the place of a Close.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self._from_client = receive
        self._to_client = send
        self._accepted = False
        self._over = False
        self._closing: asyncio.Task[None] | None = None
        self._left = False

    async def run(self, app: App, scope: Scope) -> None:
        """Have the app handle the stream.

        Raises:
            Exception: the app's exception, after the client has been told.
        """
        try:
            await app(scope, self._receive, self._send)
        except Exception as error:
            # It is not a fault if nothing more can be sent to the client.
            foreseen = (self._left or self._closing is not None) and _is_disconnect(error)
            await self._end(INTERNAL_ERROR, reason_of(error))
            if not foreseen:
                raise
        else:
            await self._end(NORMAL, "")
        finally:
            if self._closing is not None:
                self._closing.cancel()

    def close(self, code: int, reason: str) -> None:
        """Close the stream from our side, once the client has taken the earlier messages.

        A stream that has not been accepted yet is refused with 503.
        """
        if not self._over:
            self._over = True
            self._closing = asyncio.create_task(self._say(code, reason), name="closing")

    async def _say(self, code: int, reason: str) -> None:
        try:
            if self._accepted:
                close = {"type": "websocket.close", "code": code, "reason": clip(reason)}
                await self._to_client(close)
            else:
                await refuse_upgrade(self._to_client, 503, reason)
        except OSError:
            return  # the client has left

    async def _end(self, code: int, reason: str) -> None:
        """Close an accepted stream (rule 2); stop waiting for a client that takes nothing."""
        if self._accepted and not self._left:
            self.close(code, reason)
        if self._closing is not None:
            await asyncio.wait((self._closing,), timeout=LINGER_TIMEOUT)

    async def _receive(self) -> Message:
        message = await self._from_client()
        if message["type"] == "websocket.disconnect":
            self._left = True
        return message

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        if self._closing is not None:
            if kind == "websocket.close":
                return
            raise StreamOver("the server has closed this stream")
        if kind in ("websocket.close", "websocket.http.response.start"):
            self._over = True
        await self._to_client(message)
        if kind == "websocket.accept":
            self._accepted = True


def _is_disconnect(error: Exception) -> bool:
    """Whether an app's exception only says that its client has left.

    Starlette has its own exception; uvicorn does not log uvicorn's.
    """
    return isinstance(error, ConnectionError) or type(error).__name__ == "WebSocketDisconnect"
