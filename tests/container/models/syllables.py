"""Something like speech: bursts of a voice's overtones, as loud and as long as syllables."""

from __future__ import annotations

import numpy as np

from partway.container.models.speech.detector import RATE


def said(seconds: float, pitch: float = 120.0) -> np.ndarray:
    """Syllables of 200 ms, each with a vowel of its own, that rise from silence and fall back."""
    random = np.random.default_rng(7)
    time = np.arange(int(seconds * RATE)) / RATE
    syllables = (time / 0.2).astype(int)
    loudness = random.uniform(0.05, 1.0, (syllables[-1] + 1, 30))
    sound = sum(np.sin(2 * np.pi * pitch * n * time) * loudness[syllables, n] for n in range(1, 30))
    sound = sound * np.sin(np.pi * (time % 0.2) / 0.2)
    return sound / np.sqrt(np.mean(sound**2))


def silence(seconds: float) -> np.ndarray:
    return np.zeros(int(seconds * RATE))


def pcm(audio: np.ndarray) -> bytes:
    """16 bits of what is between -1 and 1; what is louder is cut off."""
    return np.clip(np.rint(audio * 32768), -32768, 32767).astype("<i2").tobytes()
