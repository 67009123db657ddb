"""LiveKit's Realtime model in a conversation that breaks: see :mod:`talking`."""

from __future__ import annotations

import asyncio
import importlib.metadata
from typing import Any

from livekit import rtc
from livekit.agents.utils import http_context
from livekit.plugins import openai
from openai.types.realtime.realtime_audio_input_turn_detection import ServerVad
from talking import Conversation, Driver, named
from told import follow

#: Samples a second of the user, and of the answers.
HEARS, SPEAKS = 16_000, 24_000


class Realtime(Conversation):
    """A session of ``openai.realtime.RealtimeModel``."""

    def __init__(self, place: dict[str, Any]) -> None:
        super().__init__(place, SPEAKS)
        self._reading: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._model = openai.realtime.RealtimeModel(
            base_url=self.place["base"],
            api_key=self.place["key"],
            model=self.place["endpoint"],
            turn_detection=ServerVad(type="server_vad", silence_duration_ms=400),
        )
        self._session = self._model.session()
        self._session.on("input_speech_started", lambda _: self.notes.add("told"))
        self._session.on("generation_created", self._begin)
        self._session.on("openai_server_event_received", self._take)
        self._session.on("error", lambda event: self.notes.add("error", named(event.error)))

    async def send(self, audio: bytes) -> None:
        self._session.push_audio(rtc.AudioFrame(audio, HEARS, 1, len(audio) // 2))

    def _begin(self, generation: Any) -> None:
        task = asyncio.create_task(self._read(generation))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _read(self, generation: Any) -> None:
        async for message in generation.message_stream:
            self.begin_answer()
            async for frame in message.audio_stream:
                self.add(bytes(frame.data))
        self.notes.add("over")

    def _take(self, event: dict[str, Any]) -> None:
        item = event.get("item", {})
        if event["type"] == "conversation.item.done" and item.get("status") == "incomplete":
            self.notes.add("kept", item["content"][0]["transcript"])

    async def close(self) -> None:
        await self._session.aclose()
        await self._model.aclose()
        for task in set(self._reading):
            task.cancel()
        if self._reading:
            await asyncio.wait(self._reading)


async def main() -> None:
    version = importlib.metadata.version("livekit-plugins-openai")
    async with http_context.open():
        await follow(Driver(Realtime, f"livekit-plugins-openai {version}"))


asyncio.run(main())
