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


def audio(rate: int) -> bytes:
    """Return a tone between two silences."""
    time = np.arange(round(SOUND * rate)) / rate
    tone = np.rint(np.sin(2 * np.pi * 220 * time) * 12_000)
    before, after = np.zeros(round(BEFORE * rate)), np.zeros(round(AFTER * rate))
    return np.concatenate([before, tone, after]).astype("<i2").tobytes()


def spoken(directory: Path) -> Spoken:
    """Write the files."""
    found = Spoken(*(directory / name for name in ("16.pcm", "24.pcm", "24.wav")))
    found.pcm16.write_bytes(audio(16_000))
    found.pcm24.write_bytes(audio(24_000))
    with wave.open(str(found.wav24), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(24_000)
        file.writeframes(audio(24_000))
    return found
