"""The score of a detector: its segments of speech beside the true ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

#: Speech from one second to another.
Segment = tuple[float, float]

#: Seconds of a gap below which two segments are one, in the truth and in detections: words are not
#: turns.
MERGED_GAP = 0.3


def merged(segments: Iterable[Segment]) -> list[Segment]:
    """Join segments whose gap is too short."""
    found: list[Segment] = []
    for begin, end in segments:
        if found and begin - found[-1][1] < MERGED_GAP:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found


def segments_of(speech: NDArray[np.bool_], seconds: float) -> list[Segment]:
    """Find the segments of frames of ``seconds`` that are speech."""
    edges = np.flatnonzero(np.diff(speech, prepend=False, append=False))
    return [(a * seconds, b * seconds) for a, b in edges.reshape(-1, 2).tolist()]


@dataclass(slots=True)
class Score:
    """The score over several clips; times in seconds.

    A detected segment belongs to the true segment that it shares most time with. A true segment
    without one is missed, even if a neighbour's covers it. A detected segment that belongs to no
    true one is a false alarm.

    Attributes:
        onsets: for each found true segment, the detected begin less the true one.
        offsets: likewise the detected end less the true one.
        false_alarms: detected segments without a true one.
        silence: seconds that are not speech.
    """

    onsets: list[float] = field(default_factory=list)
    offsets: list[float] = field(default_factory=list)
    missed: int = 0
    false_alarms: int = 0
    spoken: int = 0
    silence: float = 0.0

    def add(self, truth: Iterable[Segment], said: Iterable[Segment], seconds: float) -> None:
        """Count one clip of ``seconds``."""
        truth, said = merged(truth), merged(said)
        belonging: list[list[Segment]] = [[] for _ in truth]
        for segment in said:
            shared = [_shared(segment, true) for true in truth]
            if max(shared, default=0.0) > 0:
                belonging[shared.index(max(shared))].append(segment)
            else:
                self.false_alarms += 1
        for (begin, end), found in zip(truth, belonging, strict=True):
            if found:
                self.onsets.append(found[0][0] - begin)
                self.offsets.append(found[-1][1] - end)
            else:
                self.missed += 1
        self.spoken += len(truth)
        self.silence += seconds - sum(end - begin for begin, end in truth)


def _shared(a: Segment, b: Segment) -> float:
    return min(a[1], b[1]) - max(a[0], b[0])


def spread(errors: Sequence[float]) -> tuple[float, float] | None:
    """Median and 95th percentile of the errors' sizes; None without errors."""
    if not errors:
        return None
    median, p95 = np.percentile(np.abs(errors), (50, 95)).tolist()
    return median, p95
