"""Audio whose speech is known: tones between silences."""

from __future__ import annotations

import numpy as np

from partway.container.models.voice.interfaces import HEARING_RATE, Samples


def tone(seconds: float, rate: int = HEARING_RATE, level: float = 8000.0) -> Samples:
    """A tone whose every 20 ms are loud."""
    times = np.arange(round(seconds * rate)) / rate
    return (level * np.sin(2 * np.pi * 220 * times)).astype(np.int16)


def silence(seconds: float, rate: int = HEARING_RATE) -> Samples:
    return np.zeros(round(seconds * rate), np.int16)


def sounds(*seconds: float, rate: int = HEARING_RATE) -> Samples:
    """Silence, a tone, silence, a tone and so on, of so many seconds each."""
    makers = (silence, tone)
    return np.concatenate([makers[n % 2](each, rate) for n, each in enumerate(seconds)])
