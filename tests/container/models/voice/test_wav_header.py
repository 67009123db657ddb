"""partway.container.models.voice.wav_header, as Python's own reader takes it."""

from __future__ import annotations

import io
import wave

import pytest

from partway.container.models.voice.audio_formats import AudioFormat
from partway.container.models.voice.wav_header import wav_header


@pytest.mark.parametrize(("rate", "channels"), [(8_000, 1), (24_000, 1), (48_000, 2)])
def test_a_file_of_known_size(rate, channels):
    audio = bytes(range(40))
    form = AudioFormat("linear16", rate, channels)
    with wave.open(io.BytesIO(wav_header(form, len(audio)) + audio)) as file:
        assert file.getframerate() == rate
        assert file.getnchannels() == channels
        assert file.getsampwidth() == 2
        assert file.readframes(file.getnframes()) == audio


def test_bytes():
    assert wav_header(AudioFormat("mulaw", 8_000), None) == (
        b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x07\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0"
        b"data\xff\xff\xff\xff"
    )
    assert wav_header(AudioFormat("alaw", 8_000), 5)[4:8] == b"\x29\0\0\0"
    assert wav_header(AudioFormat("alaw", 8_000), 5)[20:22] == b"\x06\0"
