"""What long messages are filled with: of any length, and nowhere like itself."""

from __future__ import annotations

import hashlib
import string
from functools import lru_cache
from typing import Final

#: A letter for each byte: none that white space, a normal form, JSON or an escape is made of, so
#: that a container which reads something into texts is not taken for one that cannot hold them.
_LETTERS: Final = string.ascii_letters[:32].encode() * 8
#: A character of two bytes, which has no other normal form, and how many bytes are from one to the
#: next: with few of them 16 MiB take a twentieth of a second to decode.
_SHARP_S: Final = "ß".encode()
_STRIDE: Final = 61


@lru_cache(maxsize=2)
def long_bytes(size: int) -> bytes:
    """So many bytes: what is cut, doubled or mixed up in them is seen."""
    return hashlib.shake_128(b"partway").digest(size)


@lru_cache(maxsize=2)
def long_text(size: int) -> str:
    """Text whose UTF-8 has so many bytes: from two on it has fewer characters."""
    data = bytearray(long_bytes(size).translate(_LETTERS))
    for place, byte in enumerate(_SHARP_S):
        places = slice(place, size - 1 + place, _STRIDE)
        data[places] = bytes([byte]) * len(range(*places.indices(size)))
    return data.decode()
