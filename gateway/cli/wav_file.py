"""A reader of WAV files with PCM samples: the head, then frames.

``wave`` of Python 3.11 refuses the extensible format (``WAVE_FORMAT_EXTENSIBLE``). ffmpeg and sox
write it for 24 bits and for more than two channels. ``wave`` does not report a file that is cut
either.
"""

from __future__ import annotations

import struct
from io import SEEK_CUR, SEEK_END
from typing import BinaryIO, Final

#: Bytes of a file before its first chunk, and of a chunk's head; and chunks before the samples.
_RIFF: Final = 12
_CHUNK: Final = struct.Struct("<4sI")
_MOST_CHUNKS: Final = 1000

#: Format, channels, frames a second, bytes a second, bytes of a frame, bits of a sample.
_FORMAT: Final = struct.Struct("<HHIIHH")
_PCM: Final = 1
_EXTENSIBLE: Final = 0xFFFE
#: The place of the sub-format in the extensible format. It begins with a format's number, and its
#: end is the same for all formats (multichannel audio data and WAVE files, Microsoft, 2007).
_SUBFORMAT: Final = slice(24, 40)
_SUBFORMAT_END: Final = bytes.fromhex("000000001000800000aa00389b71")

#: The length written by programs that cannot seek back to the head: to the file's end.
_TO_THE_END: Final = 0xFFFF_FFFF

_MUST_BE: Final = "it must be a WAV file with PCM samples"


class WavFile:
    """A WAV file that is open at its first sample.

    Args:
        file: a seekable file.

    Attributes:
        rate: frames a second.
        channels: samples of a frame.
        width: bytes of a sample.
        frames_read: how many frames have been taken.

    Raises:
        ValueError: it is no WAV file, or its samples are not PCM.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.frames_read = 0
        begin = file.read(_RIFF)
        if len(begin) == _RIFF and not (begin[:4] == b"RIFF" and begin[8:] == b"WAVE"):
            raise ValueError(f"it does not begin with RIFF and WAVE; {_MUST_BE}")
        head, self._stated = self._find_samples()
        self.channels, self.rate, bits = _read_format(head)
        self.width = (bits + 7) // 8
        begins = file.tell()
        self._held = min(self._stated, file.seek(0, SEEK_END) - begins)
        file.seek(begins)
        self._left = self._held // self._frame

    @property
    def cut(self) -> str:
        """How the file's samples end too early; empty where they do not."""
        over = self._held % self._frame
        left_out = f"its last {over} bytes are not a whole frame and are left out" if over else ""
        if self._held < self._stated != _TO_THE_END:
            told = f"it is cut: it has {self._held} of {self._stated} bytes of samples"
            return f"{told}; {left_out}" if over else told
        return left_out

    def read(self, frames: int) -> bytes:
        """Read at most ``frames`` frames; b"" at the end."""
        data = self._file.read(min(frames, self._left) * self._frame)
        taken = len(data) // self._frame
        self._left -= taken
        self.frames_read += taken
        return data[: taken * self._frame]

    @property
    def _frame(self) -> int:
        return self.channels * self.width

    def _find_samples(self) -> tuple[bytes, int]:
        """Seek to the samples; return the format's chunk, and the samples' length in the head."""
        head: bytes | None = None
        for _ in range(_MOST_CHUNKS):
            name, size = _CHUNK.unpack(self._exactly(_CHUNK.size))
            if name == b"data":
                if head is None:
                    raise ValueError(f"its samples come before their format; {_MUST_BE}")
                return head, size
            if name == b"fmt ":
                head = self._exactly(min(size, _SUBFORMAT.stop))
                size -= len(head)
            self._file.seek(size + size % 2, SEEK_CUR)
        raise ValueError(f"its samples must come after at most {_MOST_CHUNKS} chunks")

    def _exactly(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise ValueError("it ends in the middle of its head")
        return data


def _read_format(head: bytes) -> tuple[int, int, int]:
    """Return channels, rate and bits of a format's chunk.

    Raises:
        ValueError: the format is not PCM.
    """
    if len(head) < _FORMAT.size:
        raise ValueError("it ends in the middle of its head")
    tag, channels, rate, _, _, bits = _FORMAT.unpack_from(head)
    if tag == _EXTENSIBLE:
        subformat = head[_SUBFORMAT]
        if subformat[2:] != _SUBFORMAT_END:
            raise ValueError(f"unknown format: {tag} with another sub-format; {_MUST_BE}")
        tag = int.from_bytes(subformat[:2], "little")
    if tag != _PCM:
        raise ValueError(f"unknown format: {tag}; {_MUST_BE}")
    if not channels or not bits:
        raise ValueError(f"it has {channels} channels of {bits} bits; both must be 1 or more")
    return channels, rate, bits
