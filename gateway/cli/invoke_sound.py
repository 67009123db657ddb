"""A WAV file as ``partway invoke`` sends it: 16-bit samples, at the wanted rate and channels.

A flag goes before the model's query, and the query before the file's own values. libsoxr makes
another rate, and is loaded only for such a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from partway.gateway.cli.wav_file import WavFile
from partway.gateway.storage.files import open_regular

if TYPE_CHECKING:
    import numpy as np

    Samples = np.ndarray[Any, np.dtype[np.float32]]

#: Seconds of audio in one part, as telephony sends it.
PART_SECONDS: Final = 0.02

#: Bytes of one sample: 16 bits, little-endian.
_WIDTH: Final = 2

#: Frames of a file that are converted at a time, and their bytes: a file may have 65,535 channels.
_BLOCK: Final = 4096
_BLOCK_BYTES: Final = 1024 * 1024

#: The names that services give to 16-bit little-endian samples.
_LINEAR_16: Final = frozenset({"linear16", "pcm", "pcm16", "pcm_s16le", "s16le"})

#: Channels that may be asked for: more would take much memory, and no service takes so many.
CHANNELS: Final = range(1, 257)

#: Most digits of a number in the query; the model refuses a longer one.
_MOST_DIGITS: Final = 100

#: Rates that libsoxr converts between without more memory than a block needs, in Hz.
RATES: Final = range(1_000, 768_001)


@dataclass(frozen=True, slots=True)
class AskedSound:
    """The wanted samples; None where neither flag nor query names a value."""

    rate: int | None = None
    channels: int | None = None


def asked_sound(query: str | None, rate: int | None, channels: int | None) -> AskedSound:
    """Find the wanted rate and channels.

    Args:
        query: the model's, with ``sample_rate``, ``channels`` and ``encoding``.
        rate: the flag's, which goes before the query's.
        channels: likewise.

    Raises:
        ValueError: the query's encoding is no 16-bit PCM, or a number is out of its range; the
            message says where it is from.
    """
    said = {name: values[-1] for name, values in parse_qs(query or "").items()}
    encoding = said.get("encoding", "linear16")
    if encoding.lower() not in _LINEAR_16:
        raise ValueError(
            f"--query encoding={encoding}: --wav sends linear16, 16-bit PCM; "
            "send a file in another encoding with --file"
        )
    return AskedSound(
        _asked("rate", rate, "sample_rate", said, RATES),
        _asked("channels", channels, "channels", said, CHANNELS),
    )


def _asked(
    flag: str, given: int | None, name: str, said: dict[str, str], known: range
) -> int | None:
    """The flag's number, else the query's; a word in place of a number is left to the model."""
    where = f"--{flag}"
    if given is None:
        text = said.get(name, "")
        if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
            return None
        given, where = int(text), f"--query {name}"
    if given not in known:
        raise ValueError(
            f"{where}: {given} was given; with --wav it must be from {known[0]} to {known[-1]}"
        )
    return given


class Sound:
    """An open WAV file, and the form in which its samples are sent.

    Attributes:
        rate: the sent rate, in Hz.
        part_frames: frames of each part but the last one.

    Raises:
        ValueError: the file's samples cannot be sent in this form.
    """

    def __init__(self, file: WavFile, asked: AskedSound) -> None:
        self._file = file
        self._found = (file.rate, file.channels, file.width)
        rate, channels, width = self._found
        if width > 4:
            raise ValueError(f"its samples have {width * 8} bits; they must have 8, 16, 24 or 32")
        if rate not in RATES:
            raise ValueError(f"its rate is {rate} Hz; it must be {RATES[0]} to {RATES[-1]}")
        self.rate = rate if asked.rate is None else asked.rate
        self._channels = channels if asked.channels is None else asked.channels
        if self._channels not in (1, channels) and channels != 1:
            raise ValueError(
                f"it has {channels} channels, and {self._channels} were requested; "
                "the two numbers must be equal, or one of them must be 1"
            )
        if self._channels not in CHANNELS:
            raise ValueError(
                f"it has {channels} channels; it must have at most {CHANNELS[-1]}, or be mixed "
                "to one: --channels 1"
            )
        self.part_frames = max(1, round(self.rate * PART_SECONDS))

    @property
    def conversion(self) -> str:
        """The file's form and the sent form, in words; empty where they are the same."""
        sent = (self.rate, self._channels, _WIDTH)
        return "" if sent == self._found else f"{_words(*self._found)}; sent as {_words(*sent)}"

    @property
    def cut(self) -> str:
        """How the file's samples end too early; empty where they do not."""
        return self._file.cut

    def pieces(self) -> Iterator[bytes]:
        """Yield the samples as they are sent, 20 ms at a time."""
        if not self.conversion:
            yield from iter(lambda: self._file.read(self.part_frames), b"")
            return
        size = self.part_frames * self._channels * _WIDTH
        waiting = bytearray()
        for converted in self._converted():
            waiting += converted
            while len(waiting) >= size:
                yield bytes(waiting[:size])
                del waiting[:size]
        if waiting:
            yield bytes(waiting)

    def _converted(self) -> Iterator[bytes]:
        rate, channels, width = self._found
        resampler = None
        if rate != self.rate:
            import soxr

            resampler = soxr.ResampleStream(rate, self.rate, self._channels, dtype="float32")
        ended = False
        while not ended:
            data = self._file.read(max(1, min(_BLOCK, _BLOCK_BYTES // (width * channels))))
            ended = not data
            samples = _mixed(_samples(data, width).reshape(-1, channels), self._channels)
            if resampler is not None:
                samples = resampler.resample_chunk(samples, last=ended)
            yield _as_16_bits(samples)


def _samples(data: bytes, width: int) -> Samples:
    """Convert samples of a WAV file to numbers from -1 to 1; those of 8 bits are unsigned there."""
    import numpy as np

    if width == 1:
        return (np.frombuffer(data, np.uint8).astype(np.float32) - 128) / np.float32(128)
    if width == 3:  # a byte below makes 32 bits
        wide = np.zeros((len(data) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        data, width = wide.tobytes(), 4
    return (np.frombuffer(data, f"<i{width}") / 2.0 ** (8 * width - 1)).astype(np.float32)


def _mixed(samples: Samples, channels: int) -> Samples:
    """Change the number of channels: to one by their mean, or from one by copies."""
    if samples.shape[1] == channels:
        return samples
    if channels == 1:
        mean: Samples = samples.mean(axis=1, keepdims=True)
        return mean
    return samples.repeat(channels, axis=1)


def _as_16_bits(samples: Samples) -> bytes:
    import numpy as np

    return np.clip(np.rint(samples * 32_768), -32_768, 32_767).astype("<i2").tobytes()


def _words(rate: int, channels: int, width: int) -> str:
    plural = "s" if channels > 1 else ""
    return f"{rate} Hz, {channels} channel{plural}, {width * 8} bits"


@contextmanager
def opened_sound(path: Path, asked: AskedSound) -> Iterator[Sound]:
    """Open a WAV file, and read its head.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is no WAV file with PCM samples, or they cannot be sent as wanted.
    """
    with open_regular(path) as file:
        yield Sound(WavFile(file), asked)
