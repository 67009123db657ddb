"""partway.container.models.voice.audio_formats: each encoding, rate and cut of the bytes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.container.models.voice.audio_formats import (
    AudioFormat,
    AudioReader,
    AudioWriter,
    decode,
    encode,
)
from partway.container.models.voice.interfaces import HEARING_RATE
from tests.container.models.voice.sounds import tone

#: Of G.711's tables: the bytes of the largest, a middle and the smallest values of each sign.
KNOWN = {
    "mulaw": {0x00: -32124, 0x80: 32124, 0x0F: -16764, 0x8F: 16764, 0x7E: -8, 0xFE: 8, 0xFF: 0},
    "alaw": {0x2A: -32256, 0xAA: 32256, 0x55: -8, 0xD5: 8, 0x05: -4224, 0x85: 4224, 0x45: -264},
}


@pytest.mark.parametrize("encoding", KNOWN)
def test_bytes_of_g711_stand_for_the_values_of_its_tables(encoding):
    values = decode(bytes(KNOWN[encoding]), encoding)
    assert values.tolist() == list(KNOWN[encoding].values())


@pytest.mark.parametrize("encoding", KNOWN)
def test_each_sample_has_the_byte_whose_value_is_nearest(encoding):
    samples = np.arange(-32768, 32768, 7).astype(np.int16)
    levels = decode(bytes(range(256)), encoding).astype(int)
    away = np.abs(decode(encode(samples, encoding), encoding).astype(int) - samples)
    least = np.abs(levels[None, :] - samples[:, None].astype(int)).min(axis=1)
    assert (away == least).all()


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("encoding", ["linear16", "mulaw", "alaw"])
@given(cuts=st.lists(st.integers(0, 4000), max_size=6))
def test_the_cuts_of_the_bytes_do_not_matter(encoding, channels, cuts):
    form = AudioFormat(encoding, 8000, channels)
    data = encode(np.repeat(tone(0.1, 8000), channels), encoding)
    whole = AudioReader(form)
    expected = np.concatenate([whole.feed(data), whole.end()])
    reader = AudioReader(form)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [reader.feed(data[a:b]) for a, b in pairwise(edges)]
    assert np.array_equal(np.concatenate([*pieces, reader.end()]), expected)


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 24000, 44100, 48000])
@pytest.mark.parametrize("encoding", ["linear16", "mulaw", "alaw"])
def test_a_tone_survives_the_way_out_and_in(encoding, rate):
    form = AudioFormat(encoding, rate)
    writer, reader = AudioWriter(HEARING_RATE, form), AudioReader(form)
    sent = tone(0.5)
    data = writer.feed(sent) + writer.end()
    assert len(data) / form.frame_bytes / rate == pytest.approx(0.5, abs=0.002)
    heard = np.concatenate([reader.feed(data), reader.end()])
    assert len(heard) == pytest.approx(len(sent), abs=40)
    middle = slice(800, 7000)
    noise = heard[middle].astype(float) - sent[middle]
    assert np.sqrt(np.mean(noise**2)) < 300  # of a tone of 5,700


def test_channels_are_averaged_and_an_incomplete_sample_at_the_end_is_dropped():
    reader = AudioReader(AudioFormat("linear16", HEARING_RATE, 2))
    left_and_right = np.array([[100, 300], [-100, -300]], "<i2").tobytes()
    assert reader.feed(left_and_right + b"\x01\x02\x03").tolist() == [200, -200]
    assert reader.end().tolist() == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("opus", 16000, 1), "encoding: 'opus' was given; it must be one of linear16, mulaw, alaw"),
        (("linear16", 7999, 1), "sample_rate: 7999 was given; it must be 8000 to 48000"),
        (("linear16", 48001, 1), "sample_rate: 48001 was given"),
        (("linear16", 16000, 0), "channels: 0 was given; it must be 1 to 8"),
        (("linear16", 16000, 9), "channels: 9 was given"),
    ],
)
def test_a_format_out_of_range_is_named(arguments, says):
    with pytest.raises(ValueError, match=says):
        AudioFormat(*arguments)
