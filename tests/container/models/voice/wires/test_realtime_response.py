"""partway.container.models.voice.wires.realtime_response: a response that is stopped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from partway.container.errors import ModelError
from partway.container.models.voice.conversation import ConversationItems
from partway.container.models.voice.wires.realtime_response import Response
from partway.container.models.voice.wires.realtime_session import SessionSettings
from tests.container.models.voice.wires.realtime_client import (
    RATE,
    Answering,
    audio_of,
    session,
)

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


class Client:
    """Takes events; audio only once its gate opens."""

    def __init__(self) -> None:
        self.types: list[str] = []
        self.gate = asyncio.Event()
        self.waits = asyncio.Event()

    async def send(self, text: str) -> None:
        kind = json.loads(text)["type"]
        if kind == "response.output_audio.delta":
            self.waits.set()
            await self.gate.wait()
        self.types.append(kind)


class Voice:
    """Speaks a second of silence."""

    rate, voices = RATE, ()

    async def speak(self, text: str, options: object) -> AsyncGenerator[Any]:
        yield np.zeros(RATE, np.int16)


def response_to(client: Client, answers: object = None) -> Response:
    engines: Any = SimpleNamespace(answers=answers or Answering("Hello."), speaking=Voice())
    items = ConversationItems()
    return Response(engines, SessionSettings("sess_1"), items, items, None, client.send)


async def test_audio_that_could_be_sent_at_this_moment_is_not_sent_after_a_stop() -> None:
    client = Client()
    response = response_to(client)
    async with asyncio.TaskGroup() as group:
        response.start(group, response.run())
        await client.waits.wait()
        client.gate.set()
        response.stop()
        await response.stopped("turn_detected")
    assert "response.output_audio.delta" not in client.types
    assert client.types[-6:] == [
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "conversation.item.done",
        "response.output_item.done",
        "response.done",
    ]


async def test_a_response_that_has_not_begun_is_created_and_done() -> None:
    client = Client()
    response = response_to(client)
    async with asyncio.TaskGroup() as group:
        response.start(group, response.run())
        response.stop()
        await response.stopped("client_cancelled")
    assert client.types == ["response.created", "response.done"]


async def test_a_second_stop_waits_for_the_first() -> None:
    client = Client()
    response = response_to(client)
    async with asyncio.TaskGroup() as group:
        response.start(group, response.run())
        await client.waits.wait()
        response.stop()
        response.stop()
        await asyncio.gather(
            response.stopped("turn_detected"), response.stopped("client_cancelled")
        )
    assert client.types.count("response.done") == 1


async def test_a_call_whose_arguments_were_cut_is_not_sent() -> None:
    class Cut(Answering):
        async def answer(self, messages: object, options: object) -> AsyncGenerator[Any]:
            function = {"name": "pay", "arguments": '{"sum": 10'}
            yield {"tool_calls": [{"index": 0, "id": "call_1", "function": function}]}
            yield {"finish_reason": "length"}

    client = Client()
    await response_to(client, Cut()).run()
    assert client.types == ["response.created", "response.done"]


async def test_a_client_that_truncates_an_answer_before_it_cancels_it_is_believed() -> None:
    async with session(answers=Answering("One two three four five six seven eight.")) as client:
        await client.tell("hello")
        while len(audio_of(client.events)) < 3 * RATE:  # 1.5 s, of which 1 s can have been heard
            item_id = (await client.until("response.output_audio.delta"))[-1]["item_id"]
        await client.send("conversation.item.truncate", item_id=item_id, audio_end_ms=0)
        await client.send("response.cancel")
        done = (await client.until("response.done"))[-1]["response"]
        item = await client.retrieve(item_id)
    assert done["status"] == "cancelled"
    assert [part["transcript"] for part in item["content"]] == [""]


async def test_the_next_response_waits_for_the_end_of_one_that_fails_as_it_is_stopped() -> None:
    class Clinging(Answering):
        async def answer(self, messages: object, options: object) -> AsyncGenerator[Any]:
            yield {"content": "Yes, there is much to say of it. And more"}
            try:
                await asyncio.Event().wait()
            finally:
                raise ModelError("the upstream does not let go")

    turns = {"type": "server_vad", "interrupt_min_words": 1}
    async with session(answers=Clinging()) as client:
        await client.configure(audio={"input": {"turn_detection": turns}})
        await client.tell("hello")
        await client.until("response.output_audio.delta")
        await client.say(0.8, 0.6)
        events = await client.until("response.created")
    done = [event for event in events if event["type"] == "response.done"]
    assert [event["response"]["status"] for event in done] == ["cancelled"]
