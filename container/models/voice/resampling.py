"""Mono audio at another rate, as it comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from partway.container.models.voice.interfaces import Samples

#: Samples that libsoxr takes at a time, which bounds its own buffers.
_BLOCK: Final = 1 << 15


class Resampler:
    """Converts one stream of audio; the result does not depend on the pieces' sizes.

    It holds back up to 115 ms at 8 kHz, and up to 40 ms from 22 kHz on. :meth:`end` returns them.

    Args:
        rate: samples per second of the audio that comes.
        to_rate: samples per second of the audio that leaves.
    """

    def __init__(self, rate: int, to_rate: int) -> None:
        self._convert = None if rate == to_rate else _converter(rate, to_rate)

    def feed(self, audio: Samples) -> Samples:
        if self._convert is None or not len(audio):
            return audio
        blocks = range(0, len(audio), _BLOCK)
        return _joined([self._convert(audio[at : at + _BLOCK], last=False) for at in blocks])

    def end(self) -> Samples:
        """Return the audio that was held back; nothing may be fed afterwards."""
        if self._convert is None:
            return np.zeros(0, np.int16)
        return self._convert(np.zeros(0, np.int16), last=True)


def _converter(rate: int, to_rate: int) -> Callable[..., Samples]:
    import soxr

    # 16-bit samples would be dithered, by noise that depends on the pieces.
    stream: Any = soxr.ResampleStream(rate, to_rate, 1, dtype="float32")

    def convert(audio: Samples, *, last: bool) -> Samples:
        converted = stream.resample_chunk(audio.astype(np.float32), last=last)
        rounded: Samples = np.rint(converted).clip(-32768, 32767).astype(np.int16)
        return rounded

    return convert


def _joined(pieces: list[Samples]) -> Samples:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
