"""partway.container.models.voice.engines.piper, with a program that behaves like piper 1.8."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from partway.container.errors import ModelError, SettingsRefused
from partway.container.models.voice.engines import piper
from partway.container.models.voice.engines.piper import Piper
from partway.container.models.voice.interfaces import SpeakingOptions
from tests.container.models.voice.programs import PIPER, install

OPTIONS = SpeakingOptions()
DESCRIPTION = {"audio": {"sample_rate": 22_050}, "phoneme_type": "espeak"}


def make_voice(folder: Path, description: object = DESCRIPTION) -> Path:
    voice = folder / "voice.onnx"
    voice.write_bytes(b"")
    (folder / "voice.onnx.json").write_text(json.dumps(description))
    return voice


@pytest.fixture
def loaded(tmp_path, monkeypatch, started):
    engines = []

    def load(code: str = "pass") -> Piper:
        install(tmp_path, monkeypatch, "piper", PIPER, code)
        engine = Piper()
        engines.append(engine)
        engine.load(make_voice(tmp_path))
        return engine

    yield load
    for engine in engines:
        engine.unload()
    assert not any(program.running or program.is_open for program in started)


def said(engine: Piper, text: str) -> str:
    samples = list(engine.speak(text, OPTIONS))
    return "".join(map(chr, np.concatenate(samples)[::100])) if samples else ""


def test_a_program_speaks_many_phrases(loaded, started):
    engine = loaded()
    assert engine.rate == 22_050
    for text in ("one two", "-f x", "é" * 300):
        assert said(engine, text) == text
    assert said(engine, "Three. [[x]]\n[[]]") == "Three [ x ] [  ]"
    assert said(engine, "\n") == ""
    assert len(started) == 1


def test_the_first_phrase_of_another_thread_has_the_loaded_program(loaded, started):
    engine = loaded()
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(said, engine, "first").result(30) == "first"
    assert len(started) == 1


def test_phrases_at_a_time_have_a_program_each(loaded, started):
    engine = loaded()
    with ThreadPoolExecutor(2) as threads:
        texts = [f"text {number} " + "x" * 500 for number in range(20)]
        assert list(threads.map(lambda text: said(engine, text), texts)) == [
            text.strip() for text in texts
        ]
    assert 1 <= len(started) <= 2
    first, second = (engine.speak(text, OPTIONS) for text in ("one", "two"))
    next(first), next(second)
    first.close(), second.close()
    assert len(started) == 2


def test_the_rest_of_an_abandoned_phrase_is_dropped(loaded, started):
    engine = loaded()
    audio = engine.speak("abandoned. " * 50, OPTIONS)
    next(audio)
    audio.close()
    assert said(engine, "next") == "next"
    assert len(started) == 1


def test_a_program_that_goes_on_with_an_abandoned_phrase_is_replaced(loaded, started, monkeypatch):
    engine = loaded("'hang' in line and (os.write(1, b'aa'), sys.stdin.read())")
    monkeypatch.setattr(piper, "ABANDONED_PHRASE", 0.1)
    audio = engine.speak("hang", OPTIONS)
    next(audio)
    audio.close()
    assert [program.running for program in started] == [False, True]
    assert said(engine, "next") == "next"


def test_a_program_that_ends_is_named_and_replaced(loaded, started):
    engine = loaded("'die' in line and sys.exit('no more memory')")
    with pytest.raises(ModelError, match="piper has ended: no more memory"):
        said(engine, "die")
    assert said(engine, "next") == "next"
    started[-1].kill()  # between two phrases
    assert said(engine, "next") == "next"


def test_a_program_that_hangs_has_a_deadline(loaded, monkeypatch, started):
    engine = loaded("'hang' in line and sys.stdin.read()")
    assert said(engine, "well") == "well"
    monkeypatch.setattr(piper, "PROGRAM_SILENCE", 0.2)
    monkeypatch.setattr(piper, "ABANDONED_PHRASE", 0.1)
    assert said(engine, "well") == "well"
    with pytest.raises(ModelError, match="given nothing in time"):
        said(engine, "hang")
    assert said(engine, "next") == "next"


def test_a_program_that_does_not_speak_leaves_none(loaded, started):
    with pytest.raises(ModelError, match="piper has ended: no voice"):
        loaded("sys.exit('no voice')")
    assert not any(program.running for program in started)


def test_unloading_ends_a_phrase(loaded, started):
    engine = loaded("'hang' in line and sys.stdin.read()")
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(said, engine, "well").result(30) == "well"
        phrase = thread.submit(said, engine, "hang")
        engine.unload()
        with pytest.raises(ModelError, match=r"piper has ended|the voice is unloaded"):
            phrase.result(30)
        with pytest.raises(ModelError, match="the voice is unloaded"):
            thread.submit(said, engine, "next").result(30)
    assert not any(program.running or program.is_open for program in started)


@pytest.mark.parametrize(
    ("description", "reason"),
    [
        ([], "is no description of a voice"),
        ({"audio": {}}, "is no description of a voice"),
        ({"audio": {"sample_rate": 96_000}}, "audio.sample_rate is 96000; it must be"),
        ({"audio": {"sample_rate": "x"}}, "audio.sample_rate is 'x'; it must be"),
        ({**DESCRIPTION, "phoneme_type": "text"}, "phoneme_type is 'text'; it must be 'espeak'"),
    ],
)
def test_descriptions_that_are_refused(description, reason, tmp_path):
    with pytest.raises(ModelError, match=reason):
        Piper().load(make_voice(tmp_path, description))


def test_a_voice_that_is_not_there(tmp_path):
    for place in (None, tmp_path / "x.onnx"):
        with pytest.raises(SettingsRefused, match="PARTWAY_VOICE_SPEAKS must name one"):
            Piper().load(place)
    (tmp_path / "x.onnx").write_bytes(b"")
    with pytest.raises(ModelError, match=r"x\.onnx\.json is no description"):
        Piper().load(tmp_path / "x.onnx")
