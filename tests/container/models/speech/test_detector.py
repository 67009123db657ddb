"""Where speech begins and ends, whatever parts it comes in."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partway.container.models.speech.detector import RATE, Detector
from tests.container.models.syllables import pcm, said, silence

HALF_SECOND = RATE // 2


def heard(audio: bytes, part: int = 640) -> list[tuple[float, float]]:
    """What is speech of some audio that comes in parts of so many bytes."""
    detector = Detector()
    turns = [t for at in range(0, len(audio), part) for t in detector.feed(audio[at : at + part])]
    turns += detector.end()
    assert [turn.begins for turn in turns] == [True, False] * (len(turns) // 2)
    times = [turn.time for turn in turns]
    assert times == sorted(times)
    assert all(0 <= time <= len(audio) // 2 / RATE for time in times)
    return list(zip(times[::2], times[1::2], strict=True))


def near(begin: float, end: float) -> tuple[Any, Any]:
    """Speech that was found where it is: a begin is sharp here, an end fades."""
    return (pytest.approx(begin, abs=0.025), pytest.approx(end, abs=0.08))


def noise(seconds: float, level: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(int(seconds * RATE)) * level


@pytest.mark.parametrize("level", [0.001, 0.01, 0.1])
def test_speech_in_noise_is_found_where_it_is(level: float) -> None:
    audio = np.concatenate([silence(1.0), said(1.2), silence(1.0), said(0.8), silence(1.0)])
    found = heard(pcm(audio * level * 10 + noise(5.0, level)))
    assert found == [near(1.0, 2.2), near(3.2, 4.0)]


@pytest.mark.parametrize(
    "audio",
    [
        pytest.param(silence(3.0), id="zeros"),
        pytest.param(silence(3.0) + 0.5, id="a constant"),
        pytest.param(np.ones(3 * RATE), id="clipped without an end"),
        pytest.param(noise(10.0, 0.05), id="steady noise"),
        pytest.param(noise(10.0, 1.0), id="noise that clips"),
        pytest.param(noise(3.0, 3e-5), id="the last bit"),
        pytest.param(np.sin(np.arange(3 * RATE) * 2 * np.pi * 50 / RATE) * 0.2, id="hum"),
    ],
)
def test_there_is_no_speech_where_nobody_speaks(audio: np.ndarray) -> None:
    assert heard(pcm(audio)) == []


def test_a_constant_does_not_matter() -> None:
    audio = np.concatenate([silence(1.0), said(1.0) * 0.1, silence(1.0)]) + noise(3.0, 0.002)
    assert np.array(heard(pcm(audio + 0.3))) == pytest.approx(np.array(heard(pcm(audio))), abs=0.02)


def test_speech_that_clips() -> None:
    audio = np.concatenate([silence(1.0), said(1.0) * 20, silence(1.0)]) + noise(3.0, 0.01)
    assert heard(pcm(audio)) == [near(1.0, 2.0)]


def test_out_of_digital_silence() -> None:
    found = heard(pcm(np.concatenate([silence(1.0), said(1.0) * 0.1, silence(1.0)])))
    assert found == [near(1.0, 2.0)]


def test_what_begins_in_speech_is_heard_after_the_first_pause_at_the_latest() -> None:
    audio = np.concatenate([said(2.0), silence(1.0), said(1.0), silence(1.0)]) * 0.2
    found = heard(pcm(audio + noise(5.0, 0.005)))
    assert found[-1] == near(3.0, 4.0)
    assert all(end == pytest.approx(2.0, abs=0.08) for _, end in found[:-1])


def test_what_ends_in_speech_ends_with_the_audio() -> None:
    audio = pcm(np.concatenate([silence(1.0), said(0.5)]) * 0.2 + noise(1.5, 0.005))
    (found,) = heard(audio)
    assert found == (pytest.approx(1.0, abs=0.05), 1.5)
    assert heard(audio + b"\0") == [found]


def test_noise_that_becomes_louder_is_noise_again_after_a_while() -> None:
    found = heard(pcm(np.concatenate([noise(2.0, 0.01), noise(6.0, 0.05)])))
    assert [end for _, end in found if end > 4.0] == []


def test_speech_soon_after_loud_noise() -> None:
    audio = np.concatenate([noise(2.0, 0.1), silence(0.5), said(1.0) * 0.02, silence(0.5)])
    assert heard(pcm(audio + noise(4.0, 0.001)))[-1] == near(2.5, 3.5)


@pytest.mark.parametrize("seed", [3, 12, 14, 18])
def test_whatever_it_hears_begins_and_ends_alternate(seed: int) -> None:
    random = np.random.default_rng(seed)
    loudness = np.repeat(10 ** random.uniform(-4, 0, 200), random.integers(160, 2000, 200))
    heard(pcm(random.standard_normal(len(loudness)) * loudness))


def test_the_end_may_be_asked_for_before_the_beginning() -> None:
    assert heard(b"") == []
    assert heard(b"\0") == []


AUDIO = pcm(
    np.concatenate([silence(0.7), said(0.9), silence(0.8), said(0.6), silence(0.1)]) * 0.1
    + noise(3.1, 0.004)
)


@settings(max_examples=40)
@given(st.lists(st.integers(0, len(AUDIO)), max_size=40), st.sampled_from([1, 2, 5, 10]))
def test_it_does_not_matter_how_the_audio_is_cut(cuts: list[int], step: int) -> None:
    whole = Detector(step=step)
    found = whole.feed(AUDIO)
    assert found == Detector().feed(AUDIO)
    expected = [*found, *whole.end()]
    assert len(expected) == 4
    edges = [0, *sorted(cuts), len(AUDIO)]
    detector = Detector(step=step)
    turns = [t for a, b in itertools.pairwise(edges) for t in detector.feed(AUDIO[a:b])]
    assert [*turns, *detector.end()] == expected


def test_short_steps_find_a_begin_sooner() -> None:
    audio = pcm(np.concatenate([silence(1.0), said(1.0)]))
    detector = Detector(step=2)
    ends = iter(range(640, len(audio) + 1, 640))
    (begin,) = next(found for end in ends if (found := detector.feed(audio[end - 640 : end])))
    assert detector.bytes_fed / 2 / RATE - begin.time < 0.08
    assert detector.judged == pytest.approx(detector.bytes_fed / 2 / RATE, abs=0.021)


@pytest.mark.parametrize("step", [2, 10])
def test_a_short_pause_is_an_end_and_a_begin_if_that_is_wanted(step: int) -> None:
    sound = [noise(0.5, 0.1, 1), silence(0.22), noise(0.5, 0.1, 2)]
    audio = pcm(np.concatenate([silence(1.0), *sound, silence(1.0)]) + noise(3.22, 0.001))
    detector = Detector(step=step, pause=16)
    turns = [turn.time for turn in detector.feed(audio)]
    assert turns == pytest.approx([1.0, 1.5, 1.72, 2.22], abs=0.08)
    assert detector.end() == []
    whole = [turn.time for turn in Detector(step=step).feed(audio)]
    assert whole == [turns[0], turns[3]]


@pytest.mark.parametrize("after", [0.05, 0.22, 0.4])
def test_an_end_is_reported_once(after: float) -> None:
    detector = Detector(pause=10)
    audio = np.concatenate([silence(1.0), noise(0.5, 0.1, 1), silence(after)])
    turns = [*detector.feed(pcm(audio + noise(1.5 + after, 0.001))), *detector.end()]
    assert [turn.begins for turn in turns] == [True, False]


@pytest.mark.parametrize("part", [1, 3, 641, 2559, 2561])
def test_samples_that_are_split(part: int) -> None:
    assert heard(AUDIO, part) == heard(AUDIO)


def test_the_order_of_bytes_is_what_was_agreed_on() -> None:
    audio = np.concatenate([silence(1.0), said(1.0), silence(1.0)]) * 0.1
    swapped = np.frombuffer(pcm(audio), "<i2").byteswap().tobytes()
    assert heard(swapped) != heard(pcm(audio))
