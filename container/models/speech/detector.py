"""Speech detection by band energies above an adaptive noise floor.

The audio is split into frames of 20 ms, one every 10 ms. A frame's score is the average over its
bands of the decibels above the bands' floors. The floors, the average score of noise and its
spread are learned while nobody speaks. So speech in babble must be clearer than in a steady hiss.
Speech

1. begins with ``_CONFIRMED`` frames above the upper threshold. Its true begin lies before them: the
   scores are searched backwards as far as they are above the lower threshold;
2. ends with ``_HANGOVER`` frames in a row below the lower threshold, or below a share of its own
   peak where that is more. The end is where its score fell to the lower threshold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

#: Samples per second, and bytes per sample: 16 bits, little-endian.
RATE: Final = 16_000
SAMPLE_BYTES: Final = 2

_HOP = RATE // 100
_FRAME = 2 * _HOP
#: Frames of a block. The floors are updated once per block.
_BLOCK: Final = 10

_HOP_BYTES = _HOP * SAMPLE_BYTES
#: The last frame of a block begins in the block, and ends after it.
_OVERLAP_BYTES = (_FRAME - _HOP) * SAMPLE_BYTES

#: Edges of the bands, in Hz; DC and mains hum are excluded.
_EDGES = np.array([100, 300, 600, 1000, 1500, 2200, 3200, 4500, 7000])
_BANDS = len(_EDGES) - 1
#: First indices of the bands in a spectrum of the form real, imaginary, real, …
_BINS = _EDGES * _FRAME // RATE * 2
_WINDOW = np.hanning(_FRAME + 1)[:-1]
#: Added to a band's energy: as much as white noise at -78 dB of full scale has in a band of 800 Hz.
#: Quieter sound counts as silence, and zero gets a logarithm.
_LEAST = 4.0**2 * np.sum(_WINDOW**2) * 16
#: Converts a sum of logarithms over the bands to their mean in decibels.
_DECIBELS = 10 / _BANDS

#: Rates at which floors follow a block's energies: usually, and while speech may have begun.
_FOLLOW, _FOLLOW_CANDIDATE = 0.15, 0.05
#: Blocks, about a second, in which speech now and then falls to the noise in each band. If it does
#: not, the noise has risen.
_DIPS = 10
#: The rate at which the noise scores follow, and their first mean and spread.
_LEARN, _MEAN_AT_FIRST, _SPREAD_AT_FIRST = 0.1, 1.2, 1.0
#: Blocks at the beginning, in which speech must be clearer by some decibels.
_UNSURE, _CLEARER = 4, 1.5

#: Upper threshold above the mean score of noise: decibels, or multiples of its spread.
_UPPER, _UPPER_SPREADS = 1.5, 5.0
_LOWER, _LOWER_SPREADS = 0.8, 2.0
#: The end threshold as a share of the peak of the current speech, and the smoothing of scores.
_SHARE_OF_PEAK, _SMOOTHING = 0.4, 0.4

_CONFIRMED = 4
_HANGOVER: Final = 25
#: Frames that are searched for the begin, and most frames in a row below the threshold.
_LOOK_BACK, _GAP = 60, 3

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Turn:
    """A begin or an end of speech.

    Attributes:
        begins: whether speech begins; otherwise it ends.
        time: seconds from the start of the audio.
    """

    begins: bool
    time: float


class Detector:
    """Finds speech in one stream of 16-bit PCM; the result does not depend on the parts' sizes.

    Call :meth:`feed` with all audio, then :meth:`end`.

    Args:
        step: frames that are computed together; it divides 10. A shorter step finds the same turns
            sooner. numpy's calls cost more than their computations here: 2 frames at a time take
            three times the CPU of 10.
        pause: frames of silence after which an end is reported. Speech that goes on soon after
            that is reported as a begin.
    """

    __slots__ = (
        "_above", "_block_scores", "_blocks", "_bytes", "_dips", "_energies", "_floor", "_frames",
        "_mean", "_pause", "_paused", "_peak", "_pending", "_quiet", "_scores", "_smooth",
        "_speaking", "_spread", "_step", "_until",
    )  # fmt: skip

    def __init__(self, *, step: int = _BLOCK, pause: int = _HANGOVER) -> None:
        self._step = step
        self._pause = pause
        self._pending = bytearray()  # less than a step and its overlap; first, than a block's
        self._energies = np.zeros((_BLOCK, _BANDS))  # of the frames of this block
        self._block_scores: list[float] = []
        self._bytes = 0
        self._frames = 0
        self._blocks = 0
        self._floor: _Floats | None = None
        self._dips = np.zeros((_DIPS, _BANDS))  # a ring of blocks' energies
        self._mean = _MEAN_AT_FIRST
        self._spread = _SPREAD_AT_FIRST
        self._scores: deque[float] = deque(maxlen=_LOOK_BACK)
        self._smooth = 0.0
        self._speaking = False
        self._above = 0  # frames above the upper threshold, minus later ones that were not
        self._quiet = 0  # frames in a row below the lower threshold
        self._paused = False  # the end is reported, and the speech may go on
        self._until = -1  # frames up to the last one of speech
        self._peak = 0.0

    @property
    def bytes_fed(self) -> int:
        return self._bytes

    @property
    def judged(self) -> float:
        """Seconds of audio whose frames have their scores."""
        return self._frames * _HOP / RATE

    def feed(self, pcm: bytes | memoryview) -> list[Turn]:
        """Add any number of bytes, even half samples; return the turns found."""
        self._bytes += len(pcm)
        pending = self._pending
        pending += pcm
        least = _BLOCK if self._floor is None else self._step
        frames = (len(pending) - _OVERLAP_BYTES) // _HOP_BYTES
        if frames < least:
            return []
        frames -= frames % self._step
        taken = frames * _HOP_BYTES
        energies = _energies(bytes(pending[: taken + _OVERLAP_BYTES]), frames)
        del pending[:taken]
        if self._floor is None:
            self._floor = np.add.reduce(energies[:_BLOCK], axis=0) / _BLOCK
        steps = energies.reshape(-1, self._step, _BANDS)
        return [turn for step in steps for turn in self._judge(step)]

    def end(self) -> list[Turn]:
        """End the audio and any speech; an incomplete sample is ignored."""
        if not self._speaking or self._paused:
            return []
        self._speaking = False
        if self._until == self._frames:
            return [Turn(False, self._bytes // SAMPLE_BYTES / RATE)]
        return [Turn(False, self._end_of(self._until))]

    # --- Inside ----------------------------------------------------------------------------------

    def _judge(self, energies: _Floats) -> Iterator[Turn]:
        """Find the turns in a step's frames; update the floors after the last one of a block."""
        assert self._floor is not None, "a block has come"
        above = energies - self._floor
        np.maximum(above, 0, out=above)
        scores = (np.add.reduce(above, axis=1) * _DECIBELS).tolist()
        upper = self._mean + max(_UPPER, _UPPER_SPREADS * self._spread)
        if self._blocks < _UNSURE:
            upper += _CLEARER
        lower = self._mean + max(_LOWER, _LOWER_SPREADS * self._spread)
        for score in scores:
            turn = self._frame(score, upper, lower)
            if turn is not None:
                yield turn
        filled = len(self._block_scores)
        self._energies[filled : filled + len(scores)] = energies
        self._block_scores += scores
        if len(self._block_scores) == _BLOCK:
            self._learn(np.add.reduce(self._energies, axis=0) / _BLOCK, self._block_scores)
            self._block_scores = []

    def _frame(self, score: float, upper: float, lower: float) -> Turn | None:
        """Return the turn caused by one frame; None for a frame without a turn."""
        self._scores.append(score)
        self._frames += 1
        self._smooth += _SMOOTHING * (score - self._smooth)
        if not self._speaking:
            self._above = self._above + 1 if score > upper else max(0, self._above - 1)
            return self._begin(score, lower) if self._above >= _CONFIRMED else None
        smooth = self._smooth
        self._peak = max(self._peak, smooth)
        if smooth > max(lower, _SHARE_OF_PEAK * self._peak):
            self._quiet = 0
            self._until = self._frames
            return self._resumed()
        if smooth > lower and self._until == self._frames - 1:
            self._until = self._frames  # the score falls
        self._quiet += 1
        is_over = self._quiet >= _HANGOVER
        if is_over:
            self._speaking = False
            self._above = 0
        is_silent = self._frames - self._until >= self._pause
        if self._paused or not (is_over or is_silent):
            return None
        self._paused = True
        return Turn(False, self._end_of(self._until))

    def _resumed(self) -> Turn | None:
        """Return the begin of speech that goes on after its end was reported."""
        if not self._paused:
            return None
        self._paused = False
        return Turn(True, (self._frames - 1) * _HOP / RATE)

    def _begin(self, score: float, lower: float) -> Turn:
        """Return the turn at the begin of speech that is now confirmed."""
        earliest = self._frames - 1 - self._until  # not before the last end, because frames overlap
        begun = gap = 0
        for back, before in enumerate(reversed(self._scores)):
            if back >= earliest or gap > _GAP:
                break
            if before > lower:
                begun, gap = back, 0
            else:
                gap += 1
        self._speaking = True
        self._paused = False
        self._quiet = 0
        self._peak = score
        first = self._frames - 1 - begun
        self._until = self._frames
        return Turn(True, first * _HOP / RATE)

    @staticmethod
    def _end_of(frames: int) -> float:
        """Return the end of the last of ``frames`` frames, in seconds."""
        return ((frames - 1) * _HOP + _FRAME) / RATE

    def _learn(self, mean: _Floats, scores: list[float]) -> None:
        floor = self._floor
        assert floor is not None, "a block comes first"
        self._dips[self._blocks % _DIPS] = mean
        self._blocks += 1
        if self._speaking:
            if self._blocks >= _DIPS:
                np.maximum(floor, np.minimum.reduce(self._dips, axis=0), out=floor)
            return
        if self._blocks <= _UNSURE:
            follow = max(_FOLLOW, 1 / self._blocks)
        else:
            follow = _FOLLOW_CANDIDATE if self._above else _FOLLOW
        floor += follow * (mean - floor)
        if not self._above:
            self._mean += _LEARN * (sum(scores) / _BLOCK - self._mean)
            away = sum([abs(score - self._mean) for score in scores]) / _BLOCK
            self._spread += _LEARN * (away - self._spread)


def _energies(pcm: bytes, frames: int) -> _Floats:
    """Return the logarithms (base 10) of each frame's bands: an array of frames × bands.

    Rows are independent, so the number of frames in a call does not matter.
    """
    samples = np.ndarray((frames, _FRAME), "<i2", pcm, 0, (_HOP_BYTES, SAMPLE_BYTES))
    # Single precision would be slower: numpy keeps no plan for it.
    spectrum = np.fft.rfft(samples * _WINDOW).view(np.float64)
    np.multiply(spectrum, spectrum, out=spectrum)
    bands = np.add.reduceat(spectrum, _BINS, axis=1)[:, :-1]  # the last band is the rest above
    bands += _LEAST
    return np.log10(bands, out=bands)
