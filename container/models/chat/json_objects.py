"""JSON objects of clients and upstreams, whatever they send."""

from __future__ import annotations

import json
import math
import reprlib
from typing import Any, Final, NoReturn

#: Most levels of objects and lists within each other.
MAX_DEPTH: Final = 64

#: A text of more characters may have only so many values. They bound the time and the memory that
#: reading takes, and base64 of audio or of an image is one value.
LARGE_TEXT: Final = 1 << 20
MAX_VALUES: Final = 1 << 16

_QUOTED: Final = 40  # most characters of a value that a reason quotes


def object_of(text: str | bytes) -> dict[str, Any] | None:
    """Return a JSON object; None for any other text.

    Every value can be written as JSON in UTF-8 again. ``NaN`` and infinite numbers are refused, and
    so are objects that are nested more than :data:`MAX_DEPTH` deep. A text longer than
    :data:`LARGE_TEXT` may have :data:`MAX_VALUES` values.
    """
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8-sig")
        if len(decoded) > LARGE_TEXT and sum(map(decoded.count, ",[{")) > MAX_VALUES:
            return None  # each value but the first follows one of these marks
        found = _writable(_json.decode(decoded), MAX_DEPTH)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def whole_characters(text: str) -> str:
    """Return a text with ``?`` for each half of a surrogate pair, as JSON's escapes may form."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def quoted(value: object) -> str:
    """Return the beginning of a client's value, for a reason."""
    return reprlib.repr(value)[:_QUOTED]


def _writable(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return whole_characters(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is too large")
    if not isinstance(value, dict | list):
        return value
    if not depth:
        raise ValueError("it is nested too deeply")
    if isinstance(value, list):
        return [_writable(each, depth - 1) for each in value]
    return {whole_characters(name): _writable(each, depth - 1) for name, each in value.items()}


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_json: Final = json.JSONDecoder(parse_constant=_refused)
