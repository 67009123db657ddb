"""partway.container.models.voice.wires.text_speaker: the audio of a stream's text, at its rate."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

import numpy as np
import pytest

from partway.container.models.voice.audio_formats import AudioFormat, AudioWriter
from partway.container.models.voice.engines.stub_speech import StubSpeech
from partway.container.models.voice.interfaces import SpeakingOptions
from partway.container.models.voice.speech_formats import SpeechQuery
from partway.container.models.voice.wires.text_speaker import (
    Flushed,
    PhraseBegun,
    SpokenAudio,
    TextSpeaker,
)
from tests.container.models.voice.test_speaking import speaking

TELEPHONE = AudioFormat("mulaw", 8_000)
TEXT = "The first sentence is here. And this is the second one."


@pytest.fixture
async def speaker(anyio_backend) -> AsyncIterator[TextSpeaker[int]]:
    """Speaks at another rate than its engine, so that audio is held back."""
    async with speaking(StubSpeech()) as voice:
        yield TextSpeaker(voice, SpeechQuery(TELEPHONE), "-")


def written(text: str) -> bytes:
    """The audio of a text that is converted as one."""
    made = np.concatenate(list(StubSpeech().speak(text, SpeakingOptions())))
    writer = AudioWriter(StubSpeech.rate, TELEPHONE)
    return writer.feed(made) + writer.end()


async def test_a_flush_brings_all_audio_before_it(speaker):
    audio, at = [b""], []
    for mark in (1, 2):
        speaker.add(TEXT)
        speaker.flush(mark)
    speaker.end()
    async for event in speaker.spoken():
        if isinstance(event, SpokenAudio):
            audio[-1] += event.data
        elif isinstance(event, Flushed):
            audio.append(b"")
            at.append(event.mark)
    assert (audio, at) == ([written(TEXT), written(TEXT), b""], [1, 2])


async def test_the_end_brings_all_audio_without_a_flush(speaker):
    speaker.add(TEXT)
    speaker.end()
    events = [event async for event in speaker.spoken()]
    assert b"".join(each.data for each in events if isinstance(each, SpokenAudio)) == written(TEXT)
    phrases = [each.text for each in events if isinstance(each, PhraseBegun)]
    assert phrases == ["The first sentence is here.", "And this is the second one."]


async def test_no_audio_of_cleared_text_is_left(speaker):
    speaker.add(TEXT)
    speaker.flush(1)
    async with aclosing(speaker.spoken()) as events:
        async for event in events:
            if isinstance(event, SpokenAudio) and event.data:
                break
    speaker.clear()
    speaker.add("Another text.")
    speaker.end()
    pieces = [event.data async for event in speaker.spoken() if isinstance(event, SpokenAudio)]
    assert b"".join(pieces) == written("Another text.")
