"""partway.container.models.voice.engines.stub_speech: tones, always the same."""

from __future__ import annotations

import numpy as np
import pytest

from partway.container.models.voice.engines.stub_speech import StubSpeech
from partway.container.models.voice.interfaces import SpeakingOptions


def spoken(text: str, speed: float = 1.0) -> list[list[int]]:
    return [each.tolist() for each in StubSpeech().speak(text, SpeakingOptions(speed=speed))]


def test_a_tone_for_each_word():
    one, two = spoken("four letters")
    character = 24 * 60  # and so is the silence after a word
    assert (len(one), len(two)) == (5 * character, 8 * character)
    assert one != two[: len(one)]
    assert 7_900 < max(one) <= 8_000
    assert one[-character:] == [0] * character
    assert spoken("four letters") == [one, two]
    assert spoken(" ") == []


@pytest.mark.parametrize("speed", [0.5, 2.0])
def test_speed(speed):
    (usual,), (other,) = spoken("word"), spoken("word", speed)
    assert len(other) == pytest.approx(len(usual) / speed, abs=2)
    assert np.array(other).dtype == np.array(usual).dtype
