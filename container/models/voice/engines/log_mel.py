"""The spectrogram that Whisper's networks take: 80 mel bands, one column every 10 ms."""

from __future__ import annotations

import functools
from typing import Final

import numpy as np
from numpy.typing import NDArray

from partway.container.models.voice.interfaces import HEARING_RATE

_BANDS: Final = 80
_WINDOW: Final = 400
_HOP: Final = 160
#: Slaney's scale of pitch: linear up to a frequency, logarithmic above it.
_LINEAR_TO: Final = 1000.0
_HERTZ_EACH: Final = 200 / 3
_STEP: Final = np.log(6.4) / 27

_Floats = NDArray[np.float32]


def log_mel(audio: _Floats) -> _Floats:
    """Return the spectrogram of samples from -1 to 1, as bands × columns."""
    padded = np.pad(audio.astype(np.float64), _WINDOW // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::_HOP][:-1]
    window = np.hanning(_WINDOW + 1)[:-1]
    power = np.abs(np.fft.rfft(frames * window)) ** 2
    logarithms = np.log10(np.maximum(power @ _filters(), 1e-10)).T
    logarithms = np.maximum(logarithms, logarithms.max() - 8)
    columns: _Floats = ((logarithms + 4) / 4).astype(np.float32)
    return columns


@functools.cache
def _filters() -> NDArray[np.float64]:
    """Return the share of each frequency in each band: triangles of equal area."""
    frequencies = np.fft.rfftfreq(_WINDOW, 1 / HEARING_RATE)
    top = _LINEAR_TO / _HERTZ_EACH + np.log(HEARING_RATE / 2 / _LINEAR_TO) / _STEP
    mels = np.linspace(0, top, _BANDS + 2)
    above = mels - _LINEAR_TO / _HERTZ_EACH
    edges = np.where(above < 0, mels * _HERTZ_EACH, _LINEAR_TO * np.exp(above * _STEP))
    low, middle, high = edges[:-2], edges[1:-1], edges[2:]
    rising = (frequencies[:, None] - low) / (middle - low)
    falling = (high - frequencies[:, None]) / (high - middle)
    filters: NDArray[np.float64] = np.maximum(0, np.minimum(rising, falling)) * 2 / (high - low)
    return filters
