"""partway.container.models.voice.engines.espeak, with a program that behaves like espeak-ng."""

from __future__ import annotations

import numpy as np
import pytest

from partway.container.errors import ModelError
from partway.container.models.voice.engines import espeak
from partway.container.models.voice.engines.espeak import Espeak
from partway.container.models.voice.interfaces import SpeakingOptions
from tests.container.models.voice.programs import ESPEAK, install

OPTIONS = SpeakingOptions()


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    def load(code: str = "pass") -> Espeak:
        install(tmp_path, monkeypatch, "espeak-ng", ESPEAK, code)
        engine = Espeak()
        engine.load(None)
        return engine

    return load


def said(engine: Espeak, text: str, options: SpeakingOptions = OPTIONS) -> str:
    """The characters that the program has spoken."""
    samples = [piece for piece in engine.speak(text, options) if len(piece)]
    return "".join(map(chr, np.concatenate(samples)[::100])) if samples else ""


def test_what_the_program_tells(loaded):
    engine = loaded()
    assert engine.rate == 16_000
    assert engine.voices == ("de", "en-gb")


def test_a_text_is_spoken_whole_and_never_read_as_an_option(loaded):
    engine = loaded()
    assert said(engine, "--voices") == "--voices"
    assert said(engine, "two\nlines" * 30) == "two lines" * 30
    assert said(engine, "\n\x00") == ""


def test_audio_in_odd_pieces(loaded, monkeypatch):
    engine = loaded()
    pieces = [b"h" * 40, b"hhhhabc", b"d", b"e", b"fghi", b"j"]
    monkeypatch.setattr(engine, "_run", lambda command, text: (piece for piece in pieces))
    audio = np.concatenate(list(engine.speak("a", OPTIONS)))
    assert audio.astype("<i2").tobytes() == b"abcdefghij"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (SpeakingOptions(), "-s 175"),
        (SpeakingOptions(speed=2.0), "-s 350"),
        (SpeakingOptions(speed=9.0), "-s 450"),
        (SpeakingOptions(speed=0.01), "-s 80"),
        (SpeakingOptions(voice="aura-2-helena-en"), "-s 175"),
        (SpeakingOptions(voice="-f/etc/passwd"), "-s 175"),
        (SpeakingOptions(voice="aura", language="en"), "-s 175 -v en"),
        (SpeakingOptions(voice="e", language="-"), "-s 175"),
        (SpeakingOptions(voice="EN-GB", language="de"), "-s 175 -v en-gb"),
        (SpeakingOptions(voice="alloy", language="de"), "-s 175 -v de"),
    ],
)
def test_options_of_the_program(options, expected, loaded):
    engine = loaded("text = ' '.join(sys.argv[1:])")
    assert said(engine, "x", options) == f"--stdin --stdout -z -b 1 {expected}"


def test_a_failure_is_named(loaded):
    engine = loaded("text == 'fail' and sys.exit('no such voice')")
    with pytest.raises(ModelError, match="has ended with status 1: no such voice"):
        said(engine, "fail")


def test_a_program_that_is_no_espeak(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "espeak-ng", "print('hello')")
    with pytest.raises(ModelError, match="it must write a WAV file"):
        Espeak().load(None)


def test_a_silent_program_is_killed(loaded, monkeypatch):
    engine = loaded("import time; text == 'hang' and (out.flush(), time.sleep(1000))")
    monkeypatch.setattr(espeak, "PROGRAM_SILENCE", 0.3)
    with pytest.raises(ModelError, match="given nothing in time"):
        said(engine, "hang")


def test_an_abandoned_phrase_leaves_no_program(loaded, started):
    engine = loaded()
    audio = engine.speak("a" * 100_000, OPTIONS)
    next(audio)
    assert any(program.running for program in started)
    audio.close()
    assert not any(program.running for program in started)
