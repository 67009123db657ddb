"""Hearing by faster-whisper: Whisper on CTranslate2."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from partway.container.errors import SettingsRefused
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
#: Spectra of a second, and the least of a short window; behind the audio, it has a second of
#: silence at least. In windows of 10 s, Whisper says a tenth of some voices' sentences twice.
_SPECTRA: Final = 100
_LEAST_WINDOW: Final = 15 * _SPECTRA
_SILENCE: Final = _SPECTRA
#: A text of a short window is doubtful if it can be compressed more, or if its tokens are less
#: likely (mean logarithm); faster-whisper has the same limits. So is a text whose last characters
#: stand in it before.
_MOST_COMPRESSED: Final = 2.4
_LEAST_LIKELY: Final = -1.0
_REPEATED: Final = 10


class FasterWhisper:
    """Whisper from a directory of CTranslate2's format.

    On a GPU if there is one. ``OMP_NUM_THREADS`` limits the threads on a CPU.

    Whisper hears 30 s at a time, and its encoder computes them all, though an utterance has few. So
    an utterance is heard in a shorter window first, and in the whole one if its text is doubtful.
    """

    def __init__(self) -> None:
        self._model: Any = None
        self._short: Any = None
        self._languages: frozenset[str] = frozenset()
        self._find_speech: Any = None

    def load(self, place: Path | None) -> None:
        """Load the model, and hear a second of silence, so that the first utterance is not slow.

        Raises:
            SettingsRefused: no directory is named, or it has no model.
        """
        if place is None or not (place / "model.bin").is_file():
            raise SettingsRefused(_without_model(place))
        with without_av():
            from faster_whisper import WhisperModel
            from faster_whisper.vad import get_speech_timestamps

        self._model = WhisperModel(
            str(place), device="auto", compute_type="auto", local_files_only=True
        )
        self._short = copy.copy(self._model)  # with the same weights
        self._short.encode = _in_short_window(self._model.encode)
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
        if len(audio) > _WINDOW:
            return _transcript(*self._segments(self._model, _TEMPERATURES, audio, options))
        # Without timestamps, a window is one segment. With times of words, faster-whisper would
        # hear the silence after the last word too, and invent a text for it.
        segments, language = self._segments(self._short, (0.0,), audio, options)
        found = list(islice(segments, 1))
        if not found or _is_doubtful(found[0]):
            segments, language = self._segments(self._model, _TEMPERATURES, audio, options)
            found = list(islice(segments, 1))
        return _transcript(found, language)

    def _segments(
        self, model: Any, temperatures: Sequence[float], audio: Any, options: HearingOptions
    ) -> tuple[Iterable[Any], str]:
        """Return the parts of a text, which are computed as they are taken, and the language."""
        segments, found = model.transcribe(
            audio,
            language=self._language(options.language),
            beam_size=1,
            temperature=temperatures,
            initial_prompt=options.prompt or None,
            hotwords=", ".join(options.keyterms) or None,
            condition_on_previous_text=False,
            without_timestamps=True,
            word_timestamps=options.words,
        )
        return segments, found.language

    def _language(self, language: str) -> str | None:
        """Return the model's code of a language such as ``en-US``; None lets it find out."""
        code = language.partition("-")[0].lower()
        return code if code in self._languages else None


def _without_model(place: Path | None) -> str:
    """Return why a place has no model, and how to get one."""
    if place is None:
        found = "no directory was given"
    elif not place.is_dir():
        found = f"{place} was given, and there is no such directory"
    else:
        found = f"{place} was given, and that directory has no file model.bin"
    return (
        f"faster-whisper: {found}; it must be a Whisper model in CTranslate2's format, such as "
        f"that of: hf download Systran/faster-whisper-base --local-dir {place or 'whisper'}"
    )


def _in_short_window(encode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return an encoder that leaves out most of the silence behind the audio.

    Args:
        encode: takes spectra, bands × times. faster-whisper fills their window up with zeros.
    """

    def encode_short(spectra: Any) -> Any:
        heard = np.flatnonzero(spectra.any(axis=0))
        length = int(heard[-1]) + 1 if len(heard) else 0
        return encode(spectra[:, : max(length + _SILENCE, _LEAST_WINDOW)])

    return encode_short


def _is_doubtful(segment: Any) -> bool:
    text = segment.text.strip()
    return bool(
        segment.compression_ratio > _MOST_COMPRESSED
        or segment.avg_logprob < _LEAST_LIKELY
        or text[-_REPEATED:] in text[:-_REPEATED]
    )


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
