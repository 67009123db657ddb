"""A request to a hosted app: a bounded body, and an answer that may be replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from partway.container.hosting.asgi_messages import Message, Receive, Scope, Send
from partway.container.limits import BODY_TIMEOUT, MAX_BODY_BYTES

#: Most bytes of an answer to /ping, which is held until it is complete. The contract's own answer
#: is empty.
_MAX_HELD = 64 * 1024


class BoundedBody:
    """A request's body, as read by the app. A body out of bounds ends as if the client had left.

    Args:
        max_body: largest body, in bytes.
        patience: seconds spent waiting for the body in all.

    Attributes:
        fault: the status and reason to answer, once the body is out of bounds.
    """

    def __init__(
        self, receive: Receive, max_body: int = MAX_BODY_BYTES, patience: float = BODY_TIMEOUT
    ) -> None:
        self._from_client = receive
        self._max_body = max_body
        self._patience = self._left = patience
        self._received = 0
        self._whole = False
        self.fault: tuple[int, str] | None = None

    def fits(self, scope: Scope) -> bool:
        """Whether the request's stated length, if any, is within bounds."""
        lengths = [int(value) for name, value in scope["headers"] if name == b"content-length"]
        if lengths and lengths[0] > self._max_body:
            self._too_large()
        return self.fault is None

    async def receive(self) -> Message:
        if self._whole:
            return await self._from_client()  # waits for the client to leave
        if self.fault is None:
            message = await self._next()
            if message is not None:
                return message
        return {"type": "http.disconnect"}

    async def _next(self) -> Message | None:
        clock = asyncio.get_running_loop().time
        asked = clock()
        try:
            async with asyncio.timeout(self._left):
                message = await self._from_client()
        except TimeoutError:
            self.fault = 408, f"the body did not come within {self._patience:g} s"
            return None
        self._left -= clock() - asked
        self._received += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._received > self._max_body:
            self._too_large()
            return None
        return message

    def _too_large(self) -> None:
        self.fault = 413, f"the body is larger than {self._max_body} bytes"


class PassedAnswer:
    """An app's answer, passed on as it comes unless another answer replaces it.

    Args:
        replaces: says by the status whether the answer is replaced.

    Attributes:
        begun: whether some of the app's answer has been sent.
    """

    def __init__(self, send: Send, replaces: Callable[[int], bool]) -> None:
        self._to_client = send
        self._replaces = replaces
        self.begun = False
        self.replaced = False

    async def send(self, message: Message) -> None:
        if not self.begun and message["type"] == "http.response.start":
            self.replaced = self._replaces(message["status"])
            self.begun = not self.replaced
        if not self.replaced:
            await self._to_client(message)


class HeldAnswer:
    """An app's answer, held until it is complete.

    Attributes:
        whole: done once the answer is complete, or cut because it is too long.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.whole: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.too_long = False
        self._size = 0

    @property
    def status(self) -> int:
        status: int = self.messages[0]["status"]
        return status

    async def send(self, message: Message) -> None:
        if self.whole.done():
            return
        self.messages.append(message)
        self._size += len(message.get("body", b""))
        self.too_long = self._size > _MAX_HELD
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if last or self.too_long:
            self.whole.set_result(None)
