"""partway.container.models.voice.wires.realtime_turns: turns whose texts are late."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from partway.container.errors import ModelError
from partway.container.models.voice.audio_formats import AudioFormat
from partway.container.models.voice.conversation import ConversationItems, Item
from partway.container.models.voice.engines.stub_turns import LoudnessDetector
from partway.container.models.voice.interfaces import HearingOptions, Samples, Transcript
from partway.container.models.voice.settings import VoiceSettings
from partway.container.models.voice.wires.realtime_listening import Transcribing
from partway.container.models.voice.wires.realtime_session import SessionSettings
from partway.container.models.voice.wires.realtime_turns import Announce, UserTurns
from tests.container.models.voice.sounds import silence, tone
from tests.container.models.voice.wires.realtime_client import Answering, session

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

TRANSCRIBED = {"input": {"transcription": {"model": "any"}}}
COMPLETED = "conversation.item.input_audio_transcription.completed"


class Ear:
    """Hears the number of each piece of audio, once it may.

    Args:
        fails: the number of the piece that it cannot hear.
    """

    is_idle = False

    def __init__(self, fails: int = 0) -> None:
        self.may_hear = asyncio.Event()
        self.count = 0
        self._fails = fails

    async def transcribe(self, audio: Samples, options: HearingOptions) -> Transcript:
        self.count += 1
        number = self.count
        await self.may_hear.wait()
        if number == self._fails:
            raise ModelError("the ear is full")
        return Transcript(f"piece {number}")


class Session:
    """A session whose client takes no event before its gate is open."""

    def __init__(self, ear: Ear, group: asyncio.TaskGroup) -> None:
        self.gate = asyncio.Event()
        self.sent: list[str] = []
        self.heard: list[tuple[str, bool]] = []
        turns = SimpleNamespace(detector=LoudnessDetector, is_complete=self.is_complete)
        engines: Any = SimpleNamespace(hearing=ear, turns=turns, settings=VoiceSettings())
        self.turns = UserTurns(engines, ConversationItems(), self.send, self, group)

    async def is_complete(self, audio: Samples) -> bool:
        return True

    async def send(self, text: str) -> None:
        await self.gate.wait()
        self.sent.append(json.loads(text)["type"])

    async def speech_began(self, announce: Announce) -> None:
        await announce()

    async def words_heard(self, count: int, announce: Announce) -> None:
        await announce()

    async def turn_heard(self, item: Item, *, wants_response: bool) -> None:
        self.heard.append((item.text, wants_response))

    async def say(self, *audio: Samples) -> None:
        for each in audio:
            await self.turns.append(each.tobytes())


PCM = SessionSettings("sess_1", input_format=AudioFormat(), transcribing=Transcribing())
MANUAL = replace(PCM, turn_detection=None)


async def test_a_commit_is_of_its_own_turn_though_the_client_is_behind() -> None:
    ear = Ear()
    ear.may_hear.set()
    async with asyncio.TaskGroup() as group:
        session = Session(ear, group)
        await session.turns.configure(PCM)
        await session.say(tone(0.8), silence(0.6), tone(0.8))
        await session.turns.commit()
        session.gate.set()
        await session.turns.end()
    assert [wants for _, wants in session.heard] == [True, False]


async def test_a_long_turn_of_which_a_piece_is_not_heard_has_failed() -> None:
    ear = Ear(fails=1)
    ear.may_hear.set()
    async with asyncio.TaskGroup() as group:
        session = Session(ear, group)
        session.gate.set()
        await session.turns.configure(MANUAL)
        await session.say(tone(32.0))
        await session.turns.commit()
        await session.say(tone(0.4))
        await session.turns.commit()
        await session.turns.end()
    assert [kind for kind in session.sent if kind.endswith((".failed", ".completed"))] == [
        "conversation.item.input_audio_transcription.failed",
        COMPLETED,
    ]


async def test_a_long_turn_that_is_cleared_leaves_no_text_behind() -> None:
    ear = Ear()
    async with asyncio.TaskGroup() as group:
        session = Session(ear, group)
        session.gate.set()
        await session.turns.configure(MANUAL)
        await session.say(tone(32.0))
        await session.turns.commit()
        await session.say(tone(32.0))  # its first piece is being heard
        session.turns.clear()
        await session.say(tone(0.4))
        await session.turns.commit()
        ear.may_hear.set()
        await session.turns.end()
    assert [text for text, _ in session.heard] == ["piece 1 piece 2", "piece 4"]


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
