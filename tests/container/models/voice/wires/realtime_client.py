"""A client of the Realtime wire, with a served model of stub engines."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import websockets
import websockets.asyncio.client

from partway.container.models.voice.model import Voice
from partway.container.models.voice.settings import VoiceSettings
from partway.container.testing import Served, serving
from tests.container.models.voice.sounds import silence, tone

STUBS = VoiceSettings(hears="stub", speaks="stub", answers="stub", turns="stub")
RATE = 24_000
PATIENCE = 20.0
GOING_AWAY = 1001


class RealtimeClient:
    """One session.

    Attributes:
        events: all that came, the oldest first.
    """

    def __init__(self, socket: websockets.asyncio.client.ClientConnection) -> None:
        self.socket = socket
        self.events: list[dict[str, Any]] = []

    async def send(self, kind: str, **members: object) -> None:
        await self.socket.send(json.dumps({"type": kind, **members}))

    async def say(self, *seconds: float) -> None:
        """Append a tone, silence, a tone and so on, of so many seconds each."""
        makers = (tone, silence)
        for at, each in enumerate(seconds):
            audio = makers[at % 2](each, RATE).tobytes()
            await self.send("input_audio_buffer.append", audio=base64.b64encode(audio).decode())

    async def tell(self, text: str, **response: object) -> None:
        """Add a user's message, and ask for a response."""
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        await self.send("conversation.item.create", item=item)
        await self.send("response.create", response=response)

    async def configure(self, **session: object) -> dict[str, Any]:
        await self.send("session.update", session=session)
        return (await self.until("session.updated"))[-1]["session"]

    async def until(self, kind: str) -> list[dict[str, Any]]:
        """Receive up to an event of this type; return the events from this call's first on."""
        first = len(self.events)
        while True:
            event = await self.next()
            if event["type"] == kind:
                return self.events[first:]

    async def next(self) -> dict[str, Any]:
        """Receive one event."""
        async with asyncio.timeout(PATIENCE):
            event: dict[str, Any] = json.loads(await self.socket.recv())
        self.events.append(event)
        return event

    async def retrieve(self, item_id: str) -> dict[str, Any]:
        await self.send("conversation.item.retrieve", item_id=item_id)
        return (await self.until("conversation.item.retrieved"))[-1]["item"]

    async def retrieve_nothing(self) -> list[dict[str, Any]]:
        """Return the events up to the answer to an event that is refused."""
        await self.send("conversation.item.retrieve", item_id="none", event_id="none")
        first = len(self.events)
        while (await self.until("error"))[-1]["error"]["event_id"] != "none":
            pass
        return self.events[first:]

    async def refused(self) -> dict[str, Any]:
        """Return the next event's error."""
        event = await self.next()
        assert event["type"] == "error", event
        return event["error"]


class Answering:
    """Answers what a test says, and keeps what it was asked.

    Args:
        text: the answer.
        failure: raised after the text.
    """

    def __init__(self, text: str = "Yes.", failure: Exception | None = None) -> None:
        self.text = text
        self.failure = failure
        self.asked: list[list[Mapping[str, Any]]] = []
        self.options: list[Mapping[str, Any]] = []
        self.closed = 0

    def load(self, place: object) -> None: ...

    async def answer(
        self, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
    ) -> AsyncGenerator[Mapping[str, Any]]:
        self.asked.append(list(messages))
        self.options.append(options)
        try:
            for word in self.text.split():
                yield {"content": f"{word} "}
            if self.failure is not None:
                raise self.failure
        finally:
            self.closed += 1


@asynccontextmanager
async def session(
    settings: VoiceSettings = STUBS, *, intent: str = "", **engines: object
) -> AsyncIterator[RealtimeClient]:
    """Serve the model, and open a session on it.

    Args:
        settings: the model's.
        intent: the query's; empty for none.
        engines: put into the place of those that the settings name.
    """
    voice = Voice(settings)
    async with serving(voice) as served:
        voice.engines = replace(voice.engines, **engines)  # type: ignore[arg-type]
        query = {"model": "any", **({"intent": intent} if intent else {})}
        async with served.stream("v1/realtime", query) as socket:
            client = RealtimeClient(socket)
            await client.until("session.created")
            yield client
            await socket.close(GOING_AWAY)  # as a gateway says that its client has left


def kinds(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the types of events; audio that came in several deltas counts once."""
    found: list[str] = []
    for event in events:
        kind = str(event["type"])
        if kind != "response.output_audio.delta" or kind not in found[-1:]:
            found.append(kind)
    return found


def audio_of(events: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the audio of all deltas."""
    deltas = (each["delta"] for each in events if each["type"] == "response.output_audio.delta")
    return b"".join(base64.b64decode(delta) for delta in deltas)


async def cut_sessions(served: Served, chance: random.Random, count: int) -> None:
    """Open sessions one after the other, do things at random, and cut each in the middle."""
    for _ in range(count):
        async with served.stream("v1/realtime") as socket:
            client = RealtimeClient(socket)
            await client.configure(audio={"input": {"transcription": {"model": "any"}}})
            await _act(client, chance)
            await _leave(socket, chance)


async def _leave(socket: websockets.asyncio.client.ClientConnection, chance: random.Random) -> None:
    """Close the connection, or cut it."""
    if chance.random() < 0.5:
        socket.transport.abort()
    closing = asyncio.create_task(socket.close(GOING_AWAY))
    with contextlib.suppress(websockets.ConnectionClosed):
        while True:  # a client that reads nothing does not see the Close
            await socket.recv()
    await closing


async def _act(client: RealtimeClient, chance: random.Random) -> None:
    """Do a few things at random, and wait for the events of some."""
    for _ in range(chance.randrange(1, 6)):
        match chance.randrange(6):
            case 0:
                await client.send("response.create")
            case 1:
                await client.tell("hello")
            case 2:
                await client.say(0.4, chance.choice([0.0, 0.6]))
            case 3:
                await client.send("response.cancel")
            case 4:
                await client.send("input_audio_buffer.commit")
            case 5:
                await client.retrieve_nothing()
