"""partway.container.models.voice.wires.realtime_item_hearing: items that nobody waits for."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace

import pytest

from partway.container.models.voice.interfaces import HearingOptions, Samples, Transcript
from partway.container.models.voice.model import Voice
from partway.container.testing import serving
from tests.container.models.voice.sounds import tone
from tests.container.models.voice.wires.realtime_client import (
    RATE,
    STUBS,
    Answering,
    RealtimeClient,
    session,
)

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


class SlowEar:
    """Hears nothing to its end; counts what it was asked for."""

    is_idle = False
    asked = 0

    async def transcribe(self, audio: Samples, options: HearingOptions) -> Transcript:
        self.asked += 1
        await asyncio.Event().wait()
        raise AssertionError


def spoken_item() -> dict[str, object]:
    audio = base64.b64encode(tone(0.4, RATE).tobytes()).decode()
    content = [{"type": "input_audio", "audio": audio}]
    return {"type": "message", "role": "user", "content": content}


async def test_the_items_of_a_response_that_is_refused_are_not_heard() -> None:
    ear = SlowEar()
    async with session(hearing=ear, answers=Answering("One two three four five six.")) as client:
        await client.tell("hello")
        await client.until("response.output_audio.delta")
        for wrong in ({}, {"temperature": 9}):
            await client.send("response.create", response={"input": [spoken_item()], **wrong})
            await client.until("error")
        await client.send("response.cancel")
        await client.until("response.done")
    assert ear.asked == 0


async def test_an_item_that_no_response_needs_does_not_keep_its_session_open() -> None:
    voice = Voice(STUBS)
    async with serving(voice) as served:
        voice.engines = replace(voice.engines, hearing=SlowEar())  # type: ignore[arg-type]
        async with served.stream("v1/realtime") as socket:
            client = RealtimeClient(socket)
            await client.send("conversation.item.create", item=spoken_item())
            await client.until("conversation.item.done")
            await socket.close(1000)
            assert socket.close_code == 1000  # the server has answered before the client gave up
