"""partway.container.models.voice.engines.espeak with espeak-ng itself."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import numpy as np
import pytest

from partway.container.errors import ModelError
from partway.container.models.voice.engines.espeak import Espeak
from partway.container.models.voice.interfaces import Samples, SpeakingOptions
from tests.container.models.voice.voices import SENTENCE, nothing_leaks


@pytest.fixture(scope="module")
def engine() -> Espeak:
    engine = Espeak()
    engine.load(None)
    return engine


def spoken(engine: Espeak, text: str, **options: object) -> Samples:
    pieces = list(engine.speak(text, SpeakingOptions(**options)))  # type: ignore[arg-type]
    return np.concatenate([np.zeros(0, np.int16), *pieces])


def seconds(engine: Espeak, text: str, **options: object) -> float:
    return len(spoken(engine, text, **options)) / engine.rate


def test_what_the_program_tells(engine):
    assert engine.rate == 22_050
    assert {"de", "en-gb", "en-us", "fr-fr"} <= set(engine.voices)


def test_speech(engine):
    audio = spoken(engine, SENTENCE)
    assert 3 < len(audio) / engine.rate < 6
    assert np.abs(audio).max() > 8_000


def test_options(engine):
    usual = seconds(engine, SENTENCE)
    assert seconds(engine, SENTENCE, speed=2.0) < 0.7 * usual
    assert seconds(engine, SENTENCE, speed=0.5) > 1.4 * usual
    assert not np.array_equal(spoken(engine, SENTENCE, voice="de"), spoken(engine, SENTENCE))
    assert not np.array_equal(spoken(engine, SENTENCE, language="fr"), spoken(engine, SENTENCE))
    assert np.array_equal(spoken(engine, SENTENCE, voice="alloy"), spoken(engine, SENTENCE))


@pytest.mark.parametrize(
    "text", ["--version", "-f /etc/hostname", "--help", "-w /tmp/speech.wav", "-q hello"]
)
def test_text_is_no_option(text, engine):
    assert seconds(engine, text) > 0.3


def test_text_is_no_markup_and_no_command(engine):
    assert seconds(engine, "<break time='30s'/> hi") < 8
    assert np.array_equal(spoken(engine, "a\x01100S word"), spoken(engine, "a 100S word"))
    assert not np.array_equal(spoken(engine, "[[h@'loU]]"), spoken(engine, "hello"))


@pytest.mark.parametrize("text", ["😀", "привет мир", "\ud800", "x" * 2000, "a\x00b", "."])
def test_any_text_ends(text, engine):
    assert spoken(engine, text).dtype == np.int16


def test_a_program_that_is_no_espeak():
    with pytest.raises(ModelError):
        Espeak().load(Path("/bin/true"))


def test_abandoned_phrases_leave_nothing(engine):
    with nothing_leaks():
        for _ in range(100):
            audio = engine.speak(SENTENCE * 10, SpeakingOptions())
            next(audio)
            audio.close()


def test_first_audio(engine, capsys):
    taken = []
    for _ in range(50):
        began = time.perf_counter()
        next(engine.speak(SENTENCE, SpeakingOptions()))
        taken.append((time.perf_counter() - began) * 1000)
    with capsys.disabled():
        print(f"\nespeak-ng: first audio after {statistics.median(taken):.0f} ms (median of 50)")
    assert statistics.median(taken) < 500
