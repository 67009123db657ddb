"""Something said, for engines that tell loud from silent: files of audio."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import NamedTuple

import numpy as np

#: Seconds of silence, of sound and of silence.
BEFORE, SOUND, AFTER = 0.2, 1.2, 0.8

#: The words that the engine ``stub`` hears in it: one in each 0.4 s of sound.
WORDS = "one two three"


def seconds_of(text: str) -> float:
    """Return the length of a text as the engine ``stub`` speaks it."""
    words = text.split()
    return 0.06 * (sum(map(len, words)) + len(words))


class Spoken(NamedTuple):
    """The same audio as files, mono with 16 bits.

    Attributes:
        pcm16: at 16 kHz, without a header.
        pcm24: at 24 kHz, without a header.
        wav24: at 24 kHz.
    """

    pcm16: Path
    pcm24: Path
    wav24: Path


def sound(rate: int, *seconds: float) -> bytes:
    """Return a tone, silence, a tone and so on, of so many seconds each."""
    pieces = []
    for number, length in enumerate(seconds):
        time = np.arange(round(length * rate)) / rate
        pieces.append(np.sin(2 * np.pi * 220 * time) * 12_000 * ((number + 1) % 2))
    return np.rint(np.concatenate(pieces)).astype("<i2").tobytes()


def audio(rate: int) -> bytes:
    """Return a tone between two silences."""
    return sound(rate, 0, BEFORE, SOUND, AFTER)


def spoken(directory: Path) -> Spoken:
    """Write the files."""
    found = Spoken(*(directory / name for name in ("16.pcm", "24.pcm", "24.wav")))
    found.pcm16.write_bytes(audio(16_000))
    found.pcm24.write_bytes(audio(24_000))
    write_wav(found.wav24, 24_000, audio(24_000))
    return found


def write_wav(path: Path, rate: int, samples: bytes) -> None:
    """Write a WAV file, mono with 16 bits."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples)
