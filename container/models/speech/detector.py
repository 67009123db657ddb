"""Where speech begins and ends: band energies over a noise floor that follows the noise.

The audio is looked at in frames of 20 ms, one every 10 ms. A frame's score is how many decibels
its bands stand above their floors, on average over the bands. The floors, and with them how high
noise alone scores and how much that varies, are learned while nobody speaks: so babble has to be
topped by more than a steady hiss. Speech is

1. begun by ``_CONFIRMED`` frames above the upper threshold. They lie behind its true begin, which
   is looked for in the scores before them: as far back as they are above the lower threshold;
2. ended by ``_HANGOVER`` frames in a row below the lower threshold, or below a share of its own
   peak where that is more. The end is where its score fell to the lower threshold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

#: Samples a second, and bytes of one: 16 bits, little-endian.
RATE: Final = 16_000
SAMPLE_BYTES: Final = 2

_HOP = RATE // 100
_FRAME = 2 * _HOP
#: Frames that are looked at together. The floors follow once in a block; and numpy's calls cost
#: more than what they compute here: blocks of half the length would cost nearly twice as much.
_BLOCK = 10

_HOP_BYTES = _HOP * SAMPLE_BYTES
_BLOCK_BYTES = _BLOCK * _HOP_BYTES
#: The last frame of a block begins in it, and ends behind it.
_OVERLAP_BYTES = (_FRAME - _HOP) * SAMPLE_BYTES

#: Bands from each of these to the next, in Hz: no DC, no hum of the mains.
_EDGES = np.array([100, 300, 600, 1000, 1500, 2200, 3200, 4500, 7000])
_BANDS = len(_EDGES) - 1
#: Where they begin in a spectrum that is real, imaginary, real, …
_BINS = _EDGES * _FRAME // RATE * 2
_WINDOW = np.hanning(_FRAME + 1)[:-1]
#: Added to a band's energy: white noise at -78 dB of full scale has as much in a band of 800 Hz.
#: What is quieter than that is silence, and nothing has a logarithm.
_LEAST = 4.0**2 * np.sum(_WINDOW**2) * 16
#: Makes a sum of logarithms over the bands their mean in decibels.
_DECIBELS = 10 / _BANDS

#: How far floors move towards a block's energies: usually, and while speech may have begun.
_FOLLOW, _FOLLOW_CANDIDATE = 0.15, 0.05
#: Blocks, about a second, over which speech falls to the noise in each band now and then: where it
#: does not, the noise has risen.
_DIPS = 10
#: The same for what noise scores; and what is assumed of it before any was heard.
_LEARN, _MEAN_AT_FIRST, _SPREAD_AT_FIRST = 0.1, 1.2, 1.0
#: Blocks in which so little is known that speech must be clearer by some decibels.
_UNSURE, _CLEARER = 4, 1.5

#: Thresholds above what noise scores on average: decibels, or so many times its spread.
_UPPER, _UPPER_SPREADS = 1.5, 5.0
_LOWER, _LOWER_SPREADS = 0.8, 2.0
#: Of the peak of what is being said, in scores that are smoothed so.
_SHARE_OF_PEAK, _SMOOTHING = 0.4, 0.4

_CONFIRMED = 4
_HANGOVER = 25
#: Frames in which a begin is looked for; more than so many below the threshold end the search.
_LOOK_BACK, _GAP = 60, 3

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Turn:
    """Speech begins, or ends.

    Attributes:
        begins: whether speech begins; it ends otherwise.
        time: when, in seconds from the start of the audio.
    """

    begins: bool
    time: float


class Detector:
    """Finds speech in one stream of 16-bit PCM; what it finds does not depend on the parts.

    :meth:`feed` it what comes, then :meth:`end` it. Up to 110 ms of what has come wait for the rest
    of their block.
    """

    __slots__ = (
        "_above", "_blocks", "_bytes", "_dips", "_floor", "_frames", "_mean", "_peak", "_pending",
        "_quiet", "_scores", "_smooth", "_speaking", "_spread", "_until",
    )  # fmt: skip

    def __init__(self) -> None:
        self._pending = bytearray()  # less than a block and its overlap
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
        self._above = 0  # frames above the upper threshold, less those that were not
        self._quiet = 0  # frames in a row below the lower one
        self._until = -1  # frames up to the last that was speech
        self._peak = 0.0

    @property
    def bytes_fed(self) -> int:
        """How many bytes of audio have come."""
        return self._bytes

    def feed(self, pcm: bytes | memoryview) -> list[Turn]:
        """Take in any number of bytes; a sample may come in two parts. Gives the turns found."""
        self._bytes += len(pcm)
        pending = self._pending
        pending += pcm
        blocks = (len(pending) - _OVERLAP_BYTES) // _BLOCK_BYTES
        if blocks <= 0:
            return []
        taken = blocks * _BLOCK_BYTES
        energies = _energies(bytes(pending[: taken + _OVERLAP_BYTES]), blocks * _BLOCK)
        del pending[:taken]
        blocked = energies.reshape(blocks, _BLOCK, -1)
        means = np.add.reduce(blocked, axis=1) / _BLOCK
        return [turn for n in range(blocks) for turn in self._block(blocked[n], means[n])]

    def end(self) -> list[Turn]:
        """End the audio, and with it speech that goes on. Half a sample counts for nothing."""
        if not self._speaking:
            return []
        self._speaking = False
        if self._until == self._frames:
            return [Turn(False, self._bytes // SAMPLE_BYTES / RATE)]
        return [Turn(False, self._end_of(self._until))]

    # --- Inside ----------------------------------------------------------------------------------

    def _block(self, energies: _Floats, mean: _Floats) -> Iterator[Turn]:
        """The turns in a block's frames; then the floors follow."""
        if self._floor is None:
            self._floor = mean.copy()
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
        self._learn(mean, scores)

    def _frame(self, score: float, upper: float, lower: float) -> Turn | None:
        """The turn that one frame makes; None if it makes none."""
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
            return None
        if smooth > lower and self._until == self._frames - 1:
            self._until = self._frames  # it fades
        self._quiet += 1
        if self._quiet < _HANGOVER:
            return None
        self._speaking = False
        self._above = 0
        return Turn(False, self._end_of(self._until))

    def _begin(self, score: float, lower: float) -> Turn:
        """The turn at which speech began, now that it is confirmed."""
        earliest = self._frames - 1 - self._until  # not before the last end: frames overlap
        begun = gap = 0
        for back, before in enumerate(reversed(self._scores)):
            if back >= earliest or gap > _GAP:
                break
            if before > lower:
                begun, gap = back, 0
            else:
                gap += 1
        self._speaking = True
        self._quiet = 0
        self._peak = score
        first = self._frames - 1 - begun
        self._until = self._frames
        return Turn(True, first * _HOP / RATE)

    @staticmethod
    def _end_of(frames: int) -> float:
        """When the last of ``frames`` frames ends, in seconds."""
        return ((frames - 1) * _HOP + _FRAME) / RATE

    def _learn(self, mean: _Floats, scores: list[float]) -> None:
        """Let the floors follow a block, and what noise scores."""
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
    """The logarithms (base 10) of each frame's bands: an array of frames × bands.

    Rows do not know of each other, so that it does not matter how many come together.
    """
    samples = np.ndarray((frames, _FRAME), "<i2", pcm, 0, (_HOP_BYTES, SAMPLE_BYTES))
    # Single precision would take longer: numpy keeps no plan for it.
    spectrum = np.fft.rfft(samples * _WINDOW).view(np.float64)
    np.multiply(spectrum, spectrum, out=spectrum)
    bands = np.add.reduceat(spectrum, _BINS, axis=1)[:, :-1]  # the last is what is above
    bands += _LEAST
    return np.log10(bands, out=bands)
