"""partway.container.models.voice.wires.realtime_turns: turns whose texts are late."""

from __future__ import annotations

import asyncio

import pytest

from partway.container.models.voice.interfaces import HearingOptions, Samples, Transcript
from tests.container.models.voice.wires.realtime_client import Answering, session

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

TRANSCRIBED = {"input": {"transcription": {"model": "any"}}}
COMPLETED = "conversation.item.input_audio_transcription.completed"


class Ear:
    """Hears the number of each piece of audio, once it may."""

    is_idle = False

    def __init__(self) -> None:
        self.may_hear = asyncio.Event()
        self.count = 0

    async def transcribe(self, audio: Samples, options: HearingOptions) -> Transcript:
        self.count += 1
        number = self.count
        await self.may_hear.wait()
        return Transcript(f"piece {number}")


async def test_a_turn_is_answered_after_the_speech_behind_it_was_cleared() -> None:
    ear, answers = Ear(), Answering()
    async with session(hearing=ear, answers=answers) as client:
        await client.configure(output_modalities=["text"], audio=TRANSCRIBED)
        await client.say(0.8, 0.6)
        await client.until("conversation.item.done")
        await client.say(0.4)
        await client.until("input_audio_buffer.speech_started")
        ear.may_hear.set()
        await client.until(COMPLETED)
        await client.send("input_audio_buffer.clear")
        await client.until("response.done")
    assert answers.asked == [[{"role": "user", "content": "piece 1"}]]
