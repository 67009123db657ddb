"""Contents of long messages: of any length, without a repetition."""

from __future__ import annotations

import hashlib
import string
from functools import lru_cache
from typing import Final

#: One letter for each byte. No letter occurs in white space, JSON or an escape, and none has
#: another normal form. So a container that interprets texts does not fail for that reason.
_LETTERS: Final = string.ascii_letters[:32].encode() * 8
#: A character of two bytes without another normal form, and the bytes between two of them. So few
#: of them let 16 MiB decode in a twentieth of a second.
_SHARP_S: Final = "ß".encode()
_STRIDE: Final = 61


@lru_cache(maxsize=2)
def long_bytes(size: int) -> bytes:
    """Make bytes in which a cut, a repetition or a change of order is seen."""
    return hashlib.shake_128(b"partway").digest(size)


@lru_cache(maxsize=2)
def long_text(size: int) -> str:
    """Make a text whose UTF-8 has ``size`` bytes; from two bytes on it has fewer characters."""
    data = bytearray(long_bytes(size).translate(_LETTERS))
    for place, byte in enumerate(_SHARP_S):
        places = slice(place, size - 1 + place, _STRIDE)
        data[places] = bytes([byte]) * len(range(*places.indices(size)))
    return data.decode()
