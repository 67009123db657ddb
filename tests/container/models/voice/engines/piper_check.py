"""partway.container.models.voice.engines.piper with piper 1.8 itself and a voice."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Iterator

import numpy as np
import pytest

from partway.container.errors import ModelError
from partway.container.models.voice.engines.piper import Piper
from partway.container.models.voice.interfaces import Samples, SpeakingOptions
from tests.container.models.voice.voices import (
    SENTENCE,
    children,
    piper_voice,
    put_programs_on_path,
)

OPTIONS = SpeakingOptions()


@pytest.fixture(scope="module")
def engine() -> Iterator[Piper]:
    before = children()
    engine = Piper()
    with pytest.MonkeyPatch.context() as patch:
        put_programs_on_path(patch)
        engine.load(piper_voice())
        yield engine
    engine.unload()
    assert children() == before


def spoken(engine: Piper, text: str) -> Samples:
    return np.concatenate([np.zeros(0, np.int16), *engine.speak(text, OPTIONS)])


def seconds(engine: Piper, text: str) -> float:
    return len(spoken(engine, text)) / engine.rate


def test_speech(engine):
    audio = spoken(engine, SENTENCE)
    assert engine.rate == 22_050
    assert 2.5 < len(audio) / engine.rate < 7
    assert np.abs(audio).max() > 8_000


def test_phrases_keep_their_audio(engine):
    """No phrase has audio of the one before, or leaves some to the next."""
    for _ in range(5):
        assert seconds(engine, SENTENCE) > 2.5
        assert seconds(engine, "Yes.") < 1.5
        assert seconds(engine, f"{SENTENCE} {SENTENCE}") > 5.5
        assert seconds(engine, "\n") == 0


@pytest.mark.parametrize(
    "text", ["--help", "[[h@loU]]", "[[]]", "😀", "x\x01\x00y", "...", "привет"]
)
def test_any_text_ends(text, engine):
    assert seconds(engine, text) < 8
    assert seconds(engine, "Yes.") < 1.5


def test_abandoned_phrases_leave_one_program(engine):
    before = children()
    for _ in range(5):
        audio = engine.speak(SENTENCE, OPTIONS)
        next(audio)
        audio.close()
        assert seconds(engine, "Yes.") < 1.5
    assert children() == before


def test_an_abandoned_long_phrase_ends_its_program(engine):
    (before,) = children()
    audio = engine.speak("One sentence of very many. " * 60, OPTIONS)
    next(audio)
    began = time.perf_counter()
    audio.close()
    assert time.perf_counter() - began < 5
    (after,) = children()
    assert before != after
    assert 2.5 < seconds(engine, SENTENCE) < 7


def test_a_killed_program_is_replaced(engine):
    (program,) = children()
    audio = engine.speak(SENTENCE, OPTIONS)
    os.kill(program, signal.SIGKILL)
    with pytest.raises(ModelError, match="piper has ended"):
        list(audio)
    assert seconds(engine, "Yes.") < 1.5
    assert len(children()) == 1


def test_first_audio(engine, capsys):
    spoken(engine, SENTENCE)
    taken = []
    for _ in range(15):
        began = time.perf_counter()
        audio = engine.speak(SENTENCE, OPTIONS)
        next(audio)
        taken.append((time.perf_counter() - began) * 1000)
        list(audio)
    began = time.perf_counter()
    other = Piper()
    other.load(piper_voice())
    loading = time.perf_counter() - began
    other.unload()
    with capsys.disabled():
        print(
            f"\npiper: first audio after {statistics.median(taken):.0f} ms (median of 15), "
            f"loaded in {loading:.1f} s"
        )
    assert statistics.median(taken) < 5_000
