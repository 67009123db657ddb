"""A voice without a model: each word is a tone, at once and always the same."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from partway.container.models.voice.interfaces import Samples, SpeakingOptions

#: Seconds for each character of a word, and of silence after the word.
_CHARACTER: Final = 0.06
_PAUSE: Final = 0.06
_AMPLITUDE: Final = 8_000
_LOWEST: Final = 200  # Hz
_RANGE: Final = 400


class StubSpeech:
    """Speaks tones, for benchmarks and for the tests of clients."""

    rate = 24_000
    voices = ()

    def load(self, place: Path | None) -> None: ...

    def speak(self, text: str, options: SpeakingOptions) -> Iterator[Samples]:
        """Yield the tone of each word, and the silence after it."""
        for word in text.split():
            yield self._tone(word, options.speed)

    def _tone(self, word: str, speed: float) -> Samples:
        length = round(self.rate * _CHARACTER * len(word) / speed)
        frequency = _LOWEST + zlib.crc32(word.encode("utf-8", "replace")) % _RANGE
        phases = np.arange(length) * (2 * np.pi * frequency / self.rate)
        tone = (np.sin(phases) * _AMPLITUDE).astype(np.int16)
        return np.concatenate((tone, np.zeros(round(self.rate * _PAUSE / speed), np.int16)))
