"""partway.container.models.voice.wav_files: each kind of WAV file, and broken ones."""

from __future__ import annotations

import io
import struct
import wave

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.container.models.voice.audio_formats import encode
from partway.container.models.voice.wav_files import WavFault, is_wav, read_wav
from tests.container.models.voice.sounds import tone

PCM, FLOAT, ALAW, MULAW = 1, 3, 6, 7


def written(data: bytes, width: int, rate: int = 16_000, channels: int = 1) -> bytes:
    """A file of the standard library's."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(channels)
        writer.setsampwidth(width)
        writer.setframerate(rate)
        writer.writeframes(data)
    return file.getvalue()


def made(kind: int, bits: int, data: bytes, *, extensible: bool = False, size: int = -1) -> bytes:
    """A file at 16 kHz with one channel; its data may claim another size."""
    form = struct.pack("<HHIIHH", kind, 1, 16_000, 16_000 * bits // 8, bits // 8, bits)
    if extensible:
        form = struct.pack("<H", 0xFFFE) + form[2:] + struct.pack("<HHIH", 22, bits, 4, kind)
        form += b"\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71"
    chunks = b"LIST" + struct.pack("<I", 3) + b"abc\0" + b"fmt " + struct.pack("<I", len(form))
    chunks += form + b"data" + struct.pack("<I", len(data) if size < 0 else size) + data
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


SOUND = tone(0.1)
WIDE = SOUND.astype(np.int32) << 16


@pytest.mark.parametrize(
    ("file", "away"),
    [
        (written(SOUND.tobytes(), 2), 0),
        (written(((SOUND >> 8) + 128).astype(np.uint8).tobytes(), 1), 255),
        (written(WIDE.tobytes(), 4), 0),
        (written(WIDE.view(np.uint8).reshape(-1, 4)[:, 1:].tobytes(), 3), 0),
        (written(SOUND.repeat(2).tobytes(), 2, channels=2), 0),
        (made(FLOAT, 32, (SOUND / 32768).astype("<f4").tobytes()), 0),
        (made(FLOAT, 64, (SOUND / 32768).astype("<f8").tobytes()), 0),
        (made(ALAW, 8, encode(SOUND, "alaw")), 300),
        (made(MULAW, 8, encode(SOUND, "mulaw")), 300),
        (made(PCM, 16, SOUND.tobytes(), extensible=True), 0),
        (made(FLOAT, 32, (SOUND / 32768).astype("<f4").tobytes(), extensible=True), 0),
        (made(PCM, 16, SOUND.tobytes(), size=0xFFFFFFFF), 0),
        (made(PCM, 16, SOUND.tobytes() + b"\0"), 0),
    ],
)
def test_each_kind_has_its_samples(file, away):
    assert is_wav(file)
    samples = read_wav(file, 60)
    assert len(samples) == len(SOUND)
    assert np.abs(samples.astype(int) - SOUND).max() <= away


@pytest.mark.parametrize("rate", [8000, 22050, 48000, 96000])
def test_other_rates_are_converted(rate):
    assert len(read_wav(written(tone(0.5, rate).tobytes(), 2, rate), 60)) == pytest.approx(
        8000, abs=20
    )


@pytest.mark.parametrize(
    ("file", "says"),
    [
        (b"RIFF\0\0\0\0WAVE", "the WAV file has no data"),
        (b"RIFF\0\0\0\0WAVEdata\0\0\0\0", "the WAV file has no format before its data"),
        (b"RIFF\0\0\0\0WAVEfmt \x02\0\0\0\x01\0", "format has 2 bytes; it must have 16 or more"),
        (made(2, 4, b""), "format 2 with 4 bits; it must be PCM of 8, 16, 24 or 32 bits"),
        (made(PCM, 12, b""), "format 1 with 12 bits"),
        (written(b"", 2, 7999), "1 channels at 7999 Hz; it must have 1 to 8, at 8000 to 192000"),
        (written(bytes(18), 2, channels=9), "9 channels at 16000 Hz"),
        (written(bytes(32_000 * 61), 2), "the audio has 61 s; it must have at most 60"),
    ],
)
def test_what_cannot_be_read_is_named(file, says):
    with pytest.raises(WavFault, match=says):
        read_wav(file, 60)


@given(st.binary(max_size=200), st.integers(0, 60))
def test_broken_files_fail_by_name_alone(noise, at):
    file = written(SOUND.tobytes()[:200], 2)
    broken = file[:at] + noise + file[at + len(noise) :]
    try:
        read_wav(broken, 60)
    except WavFault as fault:
        assert str(fault)  # noqa: PT017
