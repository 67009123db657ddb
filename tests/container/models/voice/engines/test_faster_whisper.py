"""partway.container.models.voice.engines.faster_whisper, with a package that behaves like it."""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from partway.container.errors import SettingsRefused
from partway.container.models.voice.engines.faster_whisper import FasterWhisper
from partway.container.models.voice.interfaces import HEARING_RATE, HearingOptions
from tests.container.models.voice.sounds import silence, tone

OPTIONS = HearingOptions(language="en-US")
WHOLE = 3000


@dataclass
class Segment:
    """A text, as surely as Whisper usually knows it."""

    text: str
    avg_logprob: float = -0.2
    compression_ratio: float = 1.2
    tokens: tuple[int, ...] = (1, 2)
    words: None = None


@dataclass
class Found:
    language: str


class Model:
    """Has the texts that are next; notes the lengths of spectra, and the temperatures."""

    supported_languages = ("en",)

    def __init__(self, place: str, **options: Any) -> None:
        self.texts: deque[list[Segment]] = deque()
        self.lengths: list[int] = []
        self.temperatures: list[int] = []

    def transcribe(self, audio: Any, *, language: str, temperature: Any, **options: Any) -> Any:
        spectra = np.zeros((80, WHOLE))
        spectra[:, : len(audio) * 100 // HEARING_RATE] = -1.5
        self.encode(spectra)
        self.temperatures.append(len(temperature))
        return iter(self.texts.popleft() if self.texts else []), Found(language)

    def encode(self, spectra: Any) -> None:
        self.lengths.append(spectra.shape[1])


@pytest.fixture
def engine(monkeypatch, tmp_path):
    package, vad = ModuleType("faster_whisper"), ModuleType("faster_whisper.vad")
    package.WhisperModel = Model
    vad.get_speech_timestamps = lambda audio: [1] if np.abs(audio).max() > 0.01 else []
    monkeypatch.setitem(sys.modules, "faster_whisper", package)
    monkeypatch.setitem(sys.modules, "faster_whisper.vad", vad)
    (tmp_path / "model.bin").touch()
    engine = FasterWhisper()
    engine.load(tmp_path)
    engine._model.lengths.clear()
    engine._model.temperatures.clear()
    return engine


@pytest.mark.parametrize(("seconds", "length"), [(0.5, 1500), (3, 1500), (20, 2100), (29.5, WHOLE)])
def test_an_utterance_is_heard_in_a_short_window(seconds, length, engine):
    engine._model.texts.append([Segment(" Yes. ")])
    heard = engine.hear(tone(seconds), OPTIONS)
    assert (heard.text, heard.language) == ("Yes.", "en")
    assert engine._model.lengths == [length]


@pytest.mark.parametrize(
    "doubtful",
    [
        pytest.param([Segment("la la la", compression_ratio=3.0)], id="compressed"),
        pytest.param([Segment("How many is it? How many is it?")], id="repeated"),
        pytest.param([Segment("yes", avg_logprob=-1.2)], id="unlikely"),
        pytest.param([], id="none"),
    ],
)
def test_a_doubtful_text_is_heard_again_in_the_whole_window(doubtful, engine):
    engine._model.texts += [doubtful, [Segment("no")]]
    assert engine.hear(tone(3), OPTIONS).text == "no"
    assert engine._model.lengths == [1500, WHOLE]
    assert engine._model.temperatures == [1, 2]


def test_only_the_first_text_of_a_window_counts(engine):
    engine._model.texts.append([Segment("yes"), Segment("Thank you.")])
    assert engine.hear(tone(3), OPTIONS).text == "yes"


def test_silence_is_not_heard(engine):
    assert engine.hear(silence(3.0), OPTIONS).text == ""
    assert engine._model.lengths == []


def test_a_folder_without_a_model(tmp_path):
    for place, found in (
        (None, "no directory was given"),
        (tmp_path, f"{tmp_path} was given, and that directory has no file model.bin"),
        (tmp_path / "x", f"{tmp_path}/x was given, and there is no such directory"),
    ):
        with pytest.raises(SettingsRefused) as refused:
            FasterWhisper().load(place)
        assert f"faster-whisper: {found}; it must be a Whisper model" in str(refused.value)
        assert str(refused.value).endswith(f" --local-dir {place or 'whisper'}")
