"""How often a byte is in a text, where it is not often there."""

from __future__ import annotations

from typing import Final

#: So many are found one by one.
_A_FEW: Final = 8

#: One byte in so many is seldom. To find one takes as long as to count so many bytes one by one.
_SELDOM: Final = 64


def byte_count(text: bytes, byte: bytes) -> int:
    """Count a byte as ``text.count(byte)`` does, in less time where it is seldom there.

    CPython counts byte by byte, but what it finds, to replace it too, it finds as fast as memory is
    read. Where there are many of them, the count itself is what takes least.

    Args:
        text: any.
        byte: of length 1.
    """
    found, at = 0, text.find(byte)
    while at >= 0 and found < _A_FEW:
        found += 1
        at = text.find(byte, at + 1)
    if at < 0:
        return found
    seldom = len(text) // _SELDOM
    found = len(text) - len(text.replace(byte, b"", seldom))
    return found if found < seldom else text.count(byte)
