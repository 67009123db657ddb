"""Hearing by faster-whisper: Whisper on CTranslate2."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from partway.container.models.voice.engines.without_av import without_av
from partway.container.models.voice.interfaces import (
    HEARING_RATE,
    HeardWord,
    HearingOptions,
    Samples,
    Transcript,
)

#: Likelier texts are tried first; more randomness is for audio in which the model repeats itself.
_TEMPERATURES: Final = (0.0, 0.4)
#: Samples that Whisper hears at a time.
_WINDOW: Final = 30 * HEARING_RATE


class FasterWhisper:
    """Whisper from a directory of CTranslate2's format.

    On a GPU if there is one. ``OMP_NUM_THREADS`` limits the threads on a CPU.
    """

    def __init__(self) -> None:
        self._model: Any = None
        self._languages: frozenset[str] = frozenset()
        self._find_speech: Any = None

    def load(self, place: Path | None) -> None:
        """Load the model, and hear a second of silence, so that the first utterance is not slow.

        Raises:
            ValueError: no directory is named, or it has no model.
        """
        if place is None or not (place / "model.bin").is_file():
            raise ValueError(
                f"faster-whisper: {place or 'no directory'} was given; it must be a directory "
                "with the file model.bin, in CTranslate2's format"
            )
        with without_av():
            from faster_whisper import WhisperModel
            from faster_whisper.vad import get_speech_timestamps

        self._model = WhisperModel(
            str(place), device="auto", compute_type="auto", local_files_only=True
        )
        self._languages = frozenset(self._model.supported_languages)
        self._find_speech = get_speech_timestamps
        self._text(np.zeros(16_000, np.float32), HearingOptions())

    def hear(self, audio: Samples, options: HearingOptions) -> Transcript:
        heard = audio.astype(np.float32) / 32768
        # Whisper invents a text for silence; its own measure of silence is unsure.
        if not self._find_speech(heard):
            return Transcript("", language=self._language(options.language) or "")
        return self._text(heard, options)

    def _text(self, audio: Any, options: HearingOptions) -> Transcript:
        segments, found = self._model.transcribe(
            audio,
            language=self._language(options.language),
            beam_size=1,
            temperature=_TEMPERATURES,
            initial_prompt=options.prompt or None,
            hotwords=", ".join(options.keyterms) or None,
            condition_on_previous_text=False,
            without_timestamps=True,
            word_timestamps=options.words,
        )
        if len(audio) <= _WINDOW:
            # Without timestamps, a window is one segment. With times of words, faster-whisper would
            # hear the silence after the last word too, and invent a text for it.
            segments = islice(segments, 1)
        return _transcript(segments, found.language)

    def _language(self, language: str) -> str | None:
        """Return the model's code of a language such as ``en-US``; None lets it find out."""
        code = language.partition("-")[0].lower()
        return code if code in self._languages else None


def _transcript(segments: Iterable[Any], language: str) -> Transcript:
    """Join the parts of a text; the confidence is the mean probability of its tokens."""
    texts: list[str] = []
    words: list[HeardWord] = []
    weighted = tokens = 0.0
    for segment in segments:
        texts.append(segment.text.strip())
        count = max(1, len(segment.tokens))
        weighted += segment.avg_logprob * count
        tokens += count
        words += [
            HeardWord(
                word.word.strip(), float(word.start), float(word.end), float(word.probability)
            )
            for word in segment.words or ()
            if word.word.strip()
        ]
    confidence = min(1.0, math.exp(weighted / tokens)) if tokens else 1.0
    return Transcript(" ".join(filter(None, texts)), confidence, tuple(words), language)
