"""Turn detection without a model: loud or not, for tests of clients and for benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from partway.container.models.voice.interfaces import (
    HEARING_RATE,
    Samples,
    SpeechDetector,
    SpeechEdge,
)

#: Samples that are judged together, 20 ms.
BLOCK: Final = HEARING_RATE // 50
#: A block is loud if one of its samples is above it.
_SILENCE: Final = 200


class StubTurns:
    """Takes every loud sound for speech, and every pause for the end of a turn."""

    def load(self, place: Path | None) -> None:
        """Load nothing."""

    def detector(self) -> SpeechDetector:
        return LoudnessDetector()

    def is_complete(self, audio: Samples) -> bool:
        return True


class LoudnessDetector:
    """Finds loud blocks of 20 ms; an incomplete block waits for its rest."""

    def __init__(self) -> None:
        self.judged = 0.0
        self._blocks = 0
        self._pending: Samples = np.zeros(0, np.int16)
        self._speaking = False

    def feed(self, audio: Samples) -> list[SpeechEdge]:
        pending = np.concatenate([self._pending, audio])
        blocks = loud_blocks(pending)
        self._pending = pending[len(blocks) * BLOCK :].copy()
        edges = []
        for loud in blocks.tolist():
            if loud is not self._speaking:
                self._speaking = loud
                edges.append(SpeechEdge(loud, self._blocks * BLOCK / HEARING_RATE))
            self._blocks += 1
        self.judged = self._blocks * BLOCK / HEARING_RATE
        return edges

    def end(self) -> list[SpeechEdge]:
        if not self._speaking:
            return []
        self._speaking = False
        return [SpeechEdge(begins=False, at=self.judged)]


def loud_blocks(audio: Samples) -> NDArray[np.bool_]:
    """Return whether each whole block of some audio is loud."""
    count = len(audio) // BLOCK
    peaks = audio[: count * BLOCK].reshape(count, BLOCK).max(axis=1, initial=0)
    loud: NDArray[np.bool_] = peaks > _SILENCE
    return loud
