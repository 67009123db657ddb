"""A message that waits to be sent, as for a client that is behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from partway.container.websocket_stream import WebSocketStream


class HeldMessage:
    """Holds one message of this process's streams back.

    Args:
        is_it: tells the message; later ones like it are sent at once.

    Attributes:
        waits: set once the message waits.
        may: sends it, once set.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, is_it: Callable[[str | bytes], bool]
    ) -> None:
        self.waits = asyncio.Event()
        self.may = asyncio.Event()
        send = WebSocketStream.send

        async def wait(stream: WebSocketStream, message: str | bytes) -> None:
            self.waits.set()
            await self.may.wait()
            await send(stream, message)

        def sent(stream: WebSocketStream, message: str | bytes) -> Awaitable[None]:
            held = not self.waits.is_set() and is_it(message)
            return wait(stream, message) if held else send(stream, message)

        monkeypatch.setattr(WebSocketStream, "send", sent)
