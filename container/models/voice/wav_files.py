"""Reading WAV files: PCM of 8 to 32 bits, floats and G.711.

http://soundfile.sapp.org/doc/WaveFormat/; the extensible form is of Microsoft's ``mmreg.h``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from partway.container.models.voice.audio_formats import (
    LEAST_RATE,
    MOST_CHANNELS,
    decode,
    mono,
)
from partway.container.models.voice.interfaces import HEARING_RATE, Samples
from partway.container.models.voice.resampling import Resampler

_PCM, _FLOAT, _ALAW, _MULAW, _EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
#: Highest rate of studios.
_MOST_RATE: Final = 192_000


class WavFault(ValueError):
    """The file cannot be read; the text says what was found."""


@dataclass(frozen=True, slots=True)
class _Form:
    kind: int
    channels: int
    rate: int
    bits: int

    @property
    def frame(self) -> int:
        """Bytes of one sample of every channel."""
        return self.channels * self.bits // 8


def is_wav(data: bytes | memoryview) -> bool:
    return data[:4] == b"RIFF" and data[8:12] == b"WAVE"


def read_wav(data: bytes | memoryview, most_seconds: float) -> Samples:
    """Return a file's audio, mono at ``HEARING_RATE``; several channels are averaged.

    A file whose end is missing has the audio that is there.

    Raises:
        WavFault: the file is malformed, of another kind, or too long.
    """
    form: _Form | None = None
    for name, chunk in _chunks(data):
        if name == b"fmt ":
            form = _form(chunk)
        elif name == b"data":
            if form is None:
                raise WavFault("the WAV file has no format before its data")
            return _audio(chunk, form, most_seconds)
    raise WavFault("the WAV file has no data")


def _chunks(data: bytes | memoryview) -> Iterator[tuple[bytes, memoryview]]:
    view = memoryview(data)
    at = 12
    while at + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, at)
        yield name, view[at + 8 : at + 8 + size]
        at += 8 + size + size % 2


def _form(chunk: memoryview) -> _Form:
    if len(chunk) < 16:
        raise WavFault(f"the WAV file's format has {len(chunk)} bytes; it must have 16 or more")
    kind, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", chunk)
    if kind == _EXTENSIBLE and len(chunk) >= 26:
        (kind,) = struct.unpack_from("<H", chunk, 24)
    known = {_PCM: (8, 16, 24, 32), _FLOAT: (32, 64), _ALAW: (8,), _MULAW: (8,)}
    if bits not in known.get(kind, ()):
        raise WavFault(
            f"the WAV file has format {kind} with {bits} bits; it must be PCM of 8, 16, 24 or 32 "
            "bits, floats, mu-law or A-law"
        )
    if not 1 <= channels <= MOST_CHANNELS or not LEAST_RATE <= rate <= _MOST_RATE:
        raise WavFault(
            f"the WAV file has {channels} channels at {rate} Hz; it must have 1 to "
            f"{MOST_CHANNELS}, at {LEAST_RATE} to {_MOST_RATE} Hz"
        )
    return _Form(kind, channels, rate, bits)


def _audio(chunk: memoryview, form: _Form, most_seconds: float) -> Samples:
    whole = chunk[: len(chunk) - len(chunk) % form.frame]
    seconds = len(whole) / form.frame / form.rate
    if seconds > most_seconds:
        raise WavFault(f"the audio has {seconds:.0f} s; it must have at most {most_seconds:.0f}")
    samples = mono(_samples(whole, form), form.channels)
    resampler = Resampler(form.rate, HEARING_RATE)
    return np.concatenate([resampler.feed(samples), resampler.end()])


def _samples(data: memoryview, form: _Form) -> Samples:
    """Return 16-bit samples in memory of their own; lower bits are dropped."""
    if form.kind == _FLOAT:
        values = np.frombuffer(data, f"<f{form.bits // 8}") * 32768
        rounded: Samples = np.clip(np.rint(np.nan_to_num(values)), -32768, 32767).astype(np.int16)
        return rounded
    if form.kind in (_ALAW, _MULAW):
        return decode(data, "alaw" if form.kind == _ALAW else "mulaw")
    if form.bits == 8:
        return (np.frombuffer(data, np.uint8).astype(np.int16) - 128) << 8
    width = form.bits // 8
    upper = np.frombuffer(data, np.uint8).reshape(-1, width)[:, width - 2 :]
    samples: Samples = np.ascontiguousarray(upper).view("<i2")[:, 0].astype(np.int16)
    return samples
