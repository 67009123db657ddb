"""Engines that fail once, named by settings as ``module:Class``."""

from __future__ import annotations

from collections.abc import Iterator

from partway.container.errors import ModelError
from partway.container.models.voice.engines.stub_hearing import StubHearing
from partway.container.models.voice.engines.stub_speech import StubSpeech
from partway.container.models.voice.interfaces import (
    HearingOptions,
    Samples,
    SpeakingOptions,
    Transcript,
)


class HearsSecond(StubHearing):
    """Cannot hear the first utterance."""

    failed = False

    def hear(self, audio: Samples, options: HearingOptions) -> Transcript:
        if not self.failed:
            self.failed = True
            raise ModelError("the ear is full")
        return super().hear(audio, options)


class SpeaksSecond(StubSpeech):
    """Cannot speak the first text."""

    failed = False

    def speak(self, text: str, options: SpeakingOptions) -> Iterator[Samples]:
        if not self.failed:
            self.failed = True
            raise ModelError("the mouth is full")
        return super().speak(text, options)


class BreaksFirst(SpeaksSecond):
    """Cannot speak the first text either, for a reason of its own code."""

    def speak(self, text: str, options: SpeakingOptions) -> Iterator[Samples]:
        try:
            return super().speak(text, options)
        except ModelError:
            raise RuntimeError("the mouth is broken") from None


_HERE = __name__
HEARS_SECOND = f"{_HERE}:HearsSecond"
SPEAKS_SECOND = f"{_HERE}:SpeaksSecond"
BREAKS_FIRST = f"{_HERE}:BreaksFirst"
