"""partway.container.models.voice.engines.energy: speech in streams that begin in any way."""

from __future__ import annotations

import numpy as np
import pytest

from partway.container.models.voice.engines.energy import EnergyDetector
from partway.container.models.voice.interfaces import HEARING_RATE, Samples
from tests.container.models.syllables import said


def speech(seconds: float) -> Samples:
    return np.clip(said(seconds) * 3000, -32768, 32767).astype(np.int16)


def room(seconds: float, level: float) -> Samples:
    noise = np.random.default_rng(2).normal(0, level, round(seconds * HEARING_RATE))
    return noise.astype(np.int16)


@pytest.mark.parametrize("level", [0, 10, 60])
def test_a_stream_that_begins_in_the_middle_of_a_word_is_heard_from_its_beginning(level):
    detector = EnergyDetector()
    edges = detector.feed(np.concatenate([speech(2.0), room(1.0, level)]))
    begins = [edge.at for edge in edges if edge.begins]
    ends = [edge.at for edge in edges if not edge.begins]
    assert [begins[0], ends[-1]] == pytest.approx([0.0, 2.0], abs=0.12)
    pauses = sum(begins[1:]) - sum(ends[:-1])
    assert pauses < 0.1


@pytest.mark.parametrize("level", [0, 10, 60, 100])
def test_a_room_is_no_speech(level):
    detector = EnergyDetector()
    assert detector.feed(room(10.0, level)) == []
    assert detector.end() == []


def test_a_decision_is_as_old_as_it_says():
    detector = EnergyDetector()
    for _ in range(10):
        detector.feed(room(0.1, 10))
    assert detector.judged == pytest.approx(0.95)
    detector.feed(room(0.01, 10))
    assert detector.judged == pytest.approx(1.0)


def test_the_end_of_the_audio_ends_speech():
    detector = EnergyDetector()
    (begin,) = detector.feed(speech(1.0))
    assert begin.begins
    (end,) = detector.end()
    assert (end.begins, end.at) == (False, pytest.approx(1.0, abs=0.1))


def test_speech_and_its_end_are_known_soon():
    detector = EnergyDetector()
    audio = np.concatenate([room(1.0, 10), speech(1.0), room(1.0, 10)])
    known = {}
    for end in range(320, len(audio) + 1, 320):
        for edge in detector.feed(audio[end - 320 : end]):
            known[edge.begins] = end / HEARING_RATE
    assert known[True] < 1.1
    assert known[False] < 2.27
