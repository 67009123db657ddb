"""A client of dialects in JSON, and a container whose engines answer at once."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import websockets

from partway.container.models.voice.interfaces import Samples
from partway.container.models.voice.model import Voice
from partway.container.models.voice.settings import VoiceSettings
from partway.container.testing import Served, serving

PATIENCE = 20.0


class JsonClient:
    """A client that sends and takes one JSON object a message."""

    def __init__(self, connection: websockets.ClientConnection) -> None:
        self.connection = connection

    async def send(self, kind: str, **members: Any) -> None:
        await self.connection.send(json.dumps({"type": kind, **members}))

    async def append(self, audio: Samples, **members: Any) -> None:
        encoded = base64.b64encode(audio.tobytes()).decode()
        await self.send("input_audio_buffer.append", audio=encoded, **members)

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            event = json.loads(await self.connection.recv())
        assert isinstance(event, dict)
        return event

    async def until(self, kind: str) -> list[dict[str, Any]]:
        """Return the events up to the first one of a type, that one included."""
        events = [await self.next()]
        while events[-1]["type"] != kind:
            events.append(await self.next())
        return events

    async def rest(self) -> list[dict[str, Any]]:
        """Return the events up to the stream's end, in order or by an error."""
        events = []
        async with asyncio.timeout(PATIENCE):
            with suppress(websockets.ConnectionClosedError):
                async for message in self.connection:
                    events.append(json.loads(message))
        return events


@asynccontextmanager
async def client(**settings: Any) -> AsyncIterator[JsonClient]:
    """A client on the default path, before its first message.

    Args:
        settings: of ``voice``; the engines are stubs where none is named.
    """
    async with voice(**settings) as served, served.stream() as connection:
        yield JsonClient(connection)


def voice(**settings: Any) -> AbstractAsyncContextManager[Served]:
    """A container for several clients; as :func:`client`."""
    engines = {"hears": "stub", "speaks": "stub", "answers": "stub", "turns": "stub"}
    return serving(Voice(VoiceSettings(**(engines | settings))))
