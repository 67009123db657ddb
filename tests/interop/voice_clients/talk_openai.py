"""OpenAI's Realtime client in a conversation that breaks: see :mod:`talking`."""

from __future__ import annotations

import asyncio
import base64
import importlib.metadata
from typing import Any

import openai
from talking import Conversation, Driver, named
from told import follow
from websockets.exceptions import ConnectionClosed

#: Samples a second of the user, and of the answers.
HEARS, SPEAKS = 16_000, 24_000


class Realtime(Conversation):
    """A Realtime session with turns by the server."""

    def __init__(self, place: dict[str, Any]) -> None:
        super().__init__(place, SPEAKS)
        self._response = ""

    async def open(self) -> None:
        self._client = openai.AsyncOpenAI(base_url=self.place["base"], api_key=self.place["key"])
        self._connecting = self._client.realtime.connect(model=self.place["endpoint"])
        self._connection = await self._connecting.__aenter__()
        await self._connection.session.update(session=session())
        self._reading = asyncio.create_task(self._read())

    async def send(self, audio: bytes) -> None:
        await self._connection.input_audio_buffer.append(audio=base64.b64encode(audio).decode())

    async def _read(self) -> None:
        try:
            while True:
                self._take(await self._connection.recv())
        except ConnectionClosed as error:
            self.notes.add("error", named(error))

    def _take(self, event: Any) -> None:
        match event.type:
            case "input_audio_buffer.speech_started":
                self.notes.add("told")
            case "response.output_audio.delta":
                if event.response_id != self._response:
                    self._response = event.response_id
                    self.begin_answer()
                self.add(base64.b64decode(event.delta))
            case "conversation.item.done" if event.item.status == "incomplete":
                self.notes.add("kept", event.item.content[0].transcript)
            case "response.done" if event.response.status == "completed":
                self.notes.add("over")
            case "error":
                self.notes.add("error", event.error.message)

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.wait((self._reading,))
        await self._connecting.__aexit__(None, None, None)
        await self._client.close()


def session() -> Any:
    turns = {"type": "server_vad", "silence_duration_ms": 400}
    hears, speaks = ({"type": "audio/pcm", "rate": rate} for rate in (HEARS, SPEAKS))
    audio = {"input": {"format": hears, "turn_detection": turns}, "output": {"format": speaks}}
    return {"type": "realtime", "audio": audio}


async def main() -> None:
    await follow(Driver(Realtime, f"openai {importlib.metadata.version('openai')}"))


asyncio.run(main())
