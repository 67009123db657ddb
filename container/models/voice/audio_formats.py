"""Audio as clients send and take it: 16-bit PCM and G.711, at the usual rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from partway.container.models.voice.interfaces import HEARING_RATE, Samples
from partway.container.models.voice.resampling import Resampler

Encoding: TypeAlias = Literal["linear16", "mulaw", "alaw"]

ENCODINGS: Final[tuple[str, ...]] = get_args(Encoding)
LEAST_RATE: Final = 8_000
MOST_RATE: Final = 48_000
MOST_CHANNELS: Final = 8

_Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """The form of a stream's audio.

    Attributes:
        encoding: ``linear16`` (16 bits, little-endian), ``mulaw`` or ``alaw`` (G.711).
        rate: samples per second of each channel.
        channels: interleaved channels.

    Raises:
        ValueError: an attribute is out of range; the message names it.
    """

    encoding: Encoding = "linear16"
    rate: int = HEARING_RATE
    channels: int = 1

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise ValueError(
                f"encoding: {str(self.encoding)[:40]!r} was given; it must be one of "
                f"{', '.join(ENCODINGS)}"
            )
        if not LEAST_RATE <= self.rate <= MOST_RATE:
            raise ValueError(
                f"sample_rate: {self.rate} was given; it must be {LEAST_RATE} to {MOST_RATE}"
            )
        if not 1 <= self.channels <= MOST_CHANNELS:
            raise ValueError(
                f"channels: {self.channels} was given; it must be 1 to {MOST_CHANNELS}"
            )

    @property
    def frame_bytes(self) -> int:
        """Bytes of one sample of every channel."""
        return self.channels * (2 if self.encoding == "linear16" else 1)


class AudioReader:
    """Reads a stream of audio as mono samples at ``HEARING_RATE``.

    Several channels are averaged. An incomplete sample waits for its rest.
    """

    def __init__(self, form: AudioFormat) -> None:
        self._format = form
        self._pending = b""
        self._resampler = Resampler(form.rate, HEARING_RATE)

    def feed(self, data: bytes) -> Samples:
        data = self._pending + data
        whole = len(data) - len(data) % self._format.frame_bytes
        self._pending = data[whole:]
        return self._resampler.feed(self._decoded(data[:whole]))

    def end(self) -> Samples:
        """Return the audio that was held back; an incomplete sample is dropped."""
        self._pending = b""
        return self._resampler.end()

    def _decoded(self, data: bytes) -> Samples:
        return mono(decode(data, self._format.encoding), self._format.channels)


class AudioWriter:
    """Writes mono samples as a stream of audio; each channel has the same samples.

    Args:
        rate: samples per second of the audio that is fed.
        form: the form of the bytes.
    """

    def __init__(self, rate: int, form: AudioFormat) -> None:
        self._format = form
        self._resampler = Resampler(rate, form.rate)

    def feed(self, audio: Samples) -> bytes:
        return self._encoded(self._resampler.feed(audio))

    def end(self) -> bytes:
        """Return the audio that was held back."""
        return self._encoded(self._resampler.end())

    def _encoded(self, audio: Samples) -> bytes:
        if self._format.channels > 1:
            audio = np.repeat(audio, self._format.channels)
        return encode(audio, self._format.encoding)


def mono(samples: Samples, channels: int) -> Samples:
    """Return the mean of interleaved channels."""
    if channels == 1:
        return samples
    mean: Samples = samples.reshape(-1, channels).mean(axis=1).astype(np.int16)
    return mean


def decode(data: bytes | memoryview, encoding: Encoding) -> Samples:
    """Return the samples of whole bytes."""
    if encoding == "linear16":
        return np.frombuffer(data, "<i2").astype(np.int16, copy=False)
    return _DECODED[encoding][np.frombuffer(data, np.uint8)]


def encode(audio: Samples, encoding: Encoding) -> bytes:
    if encoding == "linear16":
        return audio.astype("<i2", copy=False).tobytes()
    return _ENCODED[encoding][audio.view(np.uint16)].tobytes()


# --- G.711 ---------------------------------------------------------------------------------------


def _mulaw_decoded() -> Samples:
    """Return the sample of each byte (G.711, table 2a)."""
    code = ~np.arange(256, dtype=np.uint8)
    exponent = (code >> 4) & 7
    size = ((((code & 15).astype(np.int32) << 3) + 132) << exponent) - 132
    return np.where(code & 128, -size, size).astype(np.int16)


def _alaw_decoded() -> Samples:
    """Return the sample of each byte (G.711, table 1a)."""
    code = np.arange(256, dtype=np.uint8) ^ 0x55
    exponent = (code >> 4) & 7
    step = ((code & 15).astype(np.int32) << 4) + 8
    size = np.where(exponent > 0, (step + 256) << (np.maximum(exponent, 1) - 1), step)
    return np.where(code & 128, size, -size).astype(np.int16)


def _encoded_by(decoded: Samples) -> _Bytes:
    """Return the nearest byte of each sample; the index is the sample as an unsigned number."""
    order = np.argsort(decoded, kind="stable")
    levels = decoded[order].astype(np.int32)
    samples = np.arange(65536, dtype=np.uint16).view(np.int16).astype(np.int32)
    middles = (levels[:-1] + levels[1:]) / 2
    return order[np.searchsorted(middles, samples)].astype(np.uint8)


_DECODED: Final = {"mulaw": _mulaw_decoded(), "alaw": _alaw_decoded()}
_ENCODED: Final = {name: _encoded_by(table) for name, table in _DECODED.items()}
