"""Lenient base64 decoding, of either alphabet, with or without padding (RFC 4648); and encoding."""

from __future__ import annotations

import binascii
import re
from typing import Final

_TEXT: Final = re.compile(r"([A-Za-z0-9+/]*|[A-Za-z0-9_-]*)={0,2}", re.ASCII)
_URLS: Final = str.maketrans("-_", "+/")


def decoded(text: str) -> bytes:
    """Decode a text; excess bits of its last character are dropped.

    Raises:
        ValueError: the text is not base64.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError("it has characters that base64 does not have")
    digits = match[1]
    if len(digits) % 4 == 1:
        raise ValueError(f"it has {len(digits)} characters of base64, one too many or too few")
    if "-" in digits or "_" in digits:
        digits = digits.translate(_URLS)
    return binascii.a2b_base64(digits + "=" * (-len(digits) % 4))


def encoded(data: bytes) -> str:
    """Encode bytes in the standard alphabet, with padding."""
    return binascii.b2a_base64(data, newline=False).decode()
