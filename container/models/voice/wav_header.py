"""The header of a WAV file.

http://soundfile.sapp.org/doc/WaveFormat/, and RFC 2361 for G.711
"""

from __future__ import annotations

import struct
from typing import Final

from partway.container.models.voice.audio_formats import AudioFormat

_TAGS: Final = {"linear16": 1, "alaw": 6, "mulaw": 7}
#: The size of audio whose end is not known, as players take it.
_UNKNOWN: Final = 0xFFFFFFFF
_LAYOUT: Final = struct.Struct("<4sI4s4sIHHIIHH4sI")


def wav_header(form: AudioFormat, size: int | None) -> bytes:
    """Return the 44 bytes that precede the audio.

    Args:
        form: the audio's.
        size: bytes of audio; None if it is sent before its end is known.
    """
    frame = form.frame_bytes
    return _LAYOUT.pack(
        *(b"RIFF", _UNKNOWN if size is None else size + _LAYOUT.size - 8, b"WAVE"),
        *(b"fmt ", 16, _TAGS[form.encoding], form.channels, form.rate, form.rate * frame, frame),
        *(8 * frame // form.channels, b"data", _UNKNOWN if size is None else size),
    )
