"""Turn detection by our speech detector, without a model."""

from __future__ import annotations

from pathlib import Path

from partway.container.models.speech.detector import RATE, SAMPLE_BYTES, Detector
from partway.container.models.voice.interfaces import (
    HEARING_RATE,
    Samples,
    SpeechDetector,
    SpeechEdge,
)

assert RATE == HEARING_RATE, "the detector hears at its own rate"

#: The detector's blocks are of 100 ms, and the last frame of a block reaches 10 ms beyond it.
_BLOCK_SECONDS = 0.1
_OVERLAP_SECONDS = 0.01


class EnergyTurns:
    """Finds speech by its energy above the noise; takes every pause for the end of a turn."""

    def load(self, place: Path | None) -> None:
        """Load nothing."""

    def detector(self) -> SpeechDetector:
        return EnergyDetector()

    def is_complete(self, audio: Samples) -> bool:
        return True


class EnergyDetector:
    """The detector of the model ``speech``, with its times in seconds."""

    def __init__(self) -> None:
        self._detector = Detector()
        self.judged = 0.0

    def feed(self, audio: Samples) -> list[SpeechEdge]:
        turns = self._detector.feed(audio.astype("<i2", copy=False).tobytes())
        seconds = self._detector.bytes_fed / SAMPLE_BYTES / RATE
        blocks = int((seconds - _OVERLAP_SECONDS) / _BLOCK_SECONDS + 1e-9)
        self.judged = max(self.judged, blocks * _BLOCK_SECONDS)
        return [SpeechEdge(turn.begins, turn.time) for turn in turns]

    def end(self) -> list[SpeechEdge]:
        return [SpeechEdge(turn.begins, turn.time) for turn in self._detector.end()]
