"""Deepgram's SDK, which hears and speaks on a stream each: see :mod:`talking`.

Neither stream has a conversation. So this program answers each transcript itself, and clears the
audio when the user speaks.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
from contextlib import AsyncExitStack
from typing import Any

from deepgram.core.events import EventType
from deepgram.speak.v1.types import SpeakV1Text
from deepgram_connection import client_of
from talking import Conversation, Driver, named
from told import follow

RATE = 16_000


class Streams(Conversation):
    """``listen.v1`` and ``speak.v1`` of one client."""

    keeps_history = False

    def __init__(self, place: dict[str, Any]) -> None:
        super().__init__(place, RATE)
        self._connections = AsyncExitStack()
        self._answering: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        client = client_of("websocket", self.place["streams"], self.place["token"])
        audio = {"encoding": "linear16", "sample_rate": RATE}
        listening = client.listen.v1.connect(
            model="nova-3", vad_events="true", endpointing=400, **audio
        )
        speaking = client.speak.v1.connect(model="aura-2-thalia-en", **audio)
        self._hears = await self._connections.enter_async_context(listening)
        self._speaks = await self._connections.enter_async_context(speaking)
        self._hears.on(EventType.MESSAGE, self._take)
        self._speaks.on(EventType.MESSAGE, self._take)
        self._reading = []
        for connection in (self._hears, self._speaks):
            connection.on(EventType.ERROR, self._failed)
            self._reading.append(asyncio.create_task(connection.start_listening()))

    async def send(self, audio: bytes) -> None:
        await self._hears.send_media(audio)

    def _failed(self, error: Exception) -> None:
        self.notes.add("error", named(error))

    def _take(self, message: Any) -> None:
        if isinstance(message, bytes):
            self.add(message)
            return
        match message.type:
            case "SpeechStarted":
                self.notes.add("told")
                self._does(self._speaks.send_clear())
            case "Results" if message.speech_final:
                self._does(self._answer(message.channel.alternatives[0].transcript))
            case "Flushed":
                self.notes.add("over")

    async def _answer(self, heard: str) -> None:
        self.begin_answer()
        await self._speaks.send_text(SpeakV1Text(type="Speak", text=f"You said: {heard}."))
        await self._speaks.send_flush()

    def _does(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def close(self) -> None:
        for task in (*self._reading, *self._answering):
            task.cancel()
        await asyncio.wait(self._reading)
        await self._connections.aclose()


async def main() -> None:
    version = importlib.metadata.version("deepgram-sdk")
    await follow(Driver(Streams, f"deepgram-sdk {version}"))


asyncio.run(main())
