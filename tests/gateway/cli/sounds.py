"""WAV files for tests: a tone, of any rate, width and channels."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np

#: Of the tone, in Hz, and of its amplitude.
TONE = 440
LOUDNESS = 0.5


def write_tone(path: Path, *, rate: int, channels: int = 1, width: int = 2, seconds: float = 1.0):
    """A tone of 440 Hz at half of full scale, the same in each channel."""
    tone = LOUDNESS * np.sin(2 * np.pi * TONE * np.arange(round(rate * seconds)) / rate)
    samples = np.repeat(tone[:, np.newaxis], channels, axis=1)
    if width == 1:
        data = np.rint(samples * 128 + 128).astype("u1").tobytes()
    else:
        whole = np.rint(samples * 2 ** (8 * width - 1)).astype("<i4")
        data = whole.view("u1").reshape(-1, 4)[:, :width].tobytes()
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(data)
