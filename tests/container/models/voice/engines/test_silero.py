"""partway.container.models.voice.engines.silero: when the network is asked, and what it decides."""

from __future__ import annotations

import numpy as np
import pytest

from partway.container.models.voice.engines.silero import SileroDetector
from tests.container.models.voice.sounds import silence, sounds, tone


class Network:
    """Takes loud chunks for speech, unless it is deaf; counts its chunks."""

    def __init__(self, *, deaf: bool = False) -> None:
        self.deaf = deaf
        self.chunks = 0

    def __call__(self, samples: list[float]) -> float:
        self.chunks += 1
        return 0.9 if max(samples) > 0.05 and not self.deaf else 0.1


def test_speech_has_the_networks_edges():
    network = Network()
    detector = SileroDetector(network)
    edges = detector.feed(sounds(1.0, 0.8, 1.0, 0.5, 1.0))
    assert [edge.begins for edge in edges] == [True, False, True, False]
    assert [edge.at for edge in edges] == pytest.approx([1.0, 1.8, 2.8, 3.3], abs=0.04)
    assert detector.end() == []
    assert detector.judged == pytest.approx(4.3, abs=0.15)


def test_the_network_sleeps_while_our_own_detector_hears_nothing():
    network = Network()
    detector = SileroDetector(network)
    detector.feed(silence(10.0))
    assert network.chunks == 0
    detector.feed(sounds(0.0, 0.5, 10.0))
    assert network.chunks < 45  # of 328


def test_noise_that_the_network_takes_for_none_is_no_speech():
    network = Network(deaf=True)
    detector = SileroDetector(network)
    assert detector.feed(sounds(1.0, 0.8, 1.0)) == []
    assert network.chunks > 20
    assert detector.end() == []


def test_the_end_of_the_audio_ends_speech():
    detector = SileroDetector(Network())
    (begin,) = detector.feed(sounds(1.0, 0.8))
    assert begin.begins
    (end,) = detector.end()
    assert end.at == pytest.approx(1.8, abs=0.04)


@pytest.mark.parametrize("size", [1, 160, 511, 512, 4000])
def test_the_sizes_of_the_pieces_do_not_matter(size):
    audio = np.concatenate([sounds(1.0, 0.8, 0.9), tone(0.3)])[: 16_000 if size == 1 else None]
    whole, pieces = SileroDetector(Network()), SileroDetector(Network())
    expected = whole.feed(audio)
    assert [
        edge
        for begin in range(0, len(audio), size)
        for edge in pieces.feed(audio[begin : begin + size])
    ] == expected
    assert pieces.judged == whole.judged
