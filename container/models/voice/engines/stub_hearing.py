"""Hearing without a model: words by duration, for tests of clients and for benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from partway.container.models.voice.engines.stub_turns import BLOCK, loud_blocks
from partway.container.models.voice.interfaces import (
    HEARING_RATE,
    HeardWord,
    HearingOptions,
    Samples,
    Transcript,
)

#: Seconds of sound for each word.
WORD: Final = 0.4
_WORDS: Final = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


class StubHearing:
    """Hears one word, a number, in each 0.4 s from the first loud sound to the last."""

    def load(self, place: Path | None) -> None:
        """Load nothing."""

    def hear(self, audio: Samples, options: HearingOptions) -> Transcript:
        loud = loud_blocks(audio).nonzero()[0]
        if not len(loud):
            return Transcript("")
        first, last = (at * BLOCK / HEARING_RATE for at in (int(loud[0]), int(loud[-1]) + 1))
        count = max(1, round((last - first) / WORD))
        length = (last - first) / count
        words = tuple(
            HeardWord(
                _WORDS[number % len(_WORDS)],
                round(first + number * length, 3),
                round(first + (number + 1) * length, 3),
                1.0,
            )
            for number in range(count)
        )
        text = " ".join(word.text for word in words)
        return Transcript(text, 1.0, words if options.words else (), options.language or "en")
