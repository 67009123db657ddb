"""Numbers in text, many at a time."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import starmap
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

#: Replaces a line end in a text that is parsed as one JSON array.
MARK: Final = b",null,"


def comma_separated(text: bytes) -> NDArray[np.float64] | None:
    """Parse numbers between commas; None unless all are written as in JSON.

    The result has one dimension. Programs write numbers like this; :func:`number` reads numbers
    written by people. Both round correctly.
    """
    rows = number_lines(text)
    return None if rows is None or len(rows) != 1 else rows[0]


def lines_ended(text: bytes, marked: bytes) -> int:
    """Count the line ends that :data:`MARK` has replaced, faster than with ``bytes.count``."""
    return (len(marked) - len(text)) // (len(MARK) - 1)


def number_lines(text: bytes) -> NDArray[np.float64] | None:
    """Parse lines with the same count of such numbers.

    Returns:
        (lines, numbers on a line); None for any other text.
    """
    # Among JSON's words, true and false are numbers to Python; packed() refuses all others.
    if b"u" in text or b"l" in text:
        return None
    try:
        # Line ends become marks among the numbers, which show whether the lines are alike.
        marked = text.replace(b"\n", MARK)
        values = orjson.loads(b"[%b]" % marked)
        lines = 1 + lines_ended(text, marked)
        width = (len(values) - lines + 1) // lines
        if not width or values[width :: width + 1] != [None] * (lines - 1):
            return None
        del values[width :: width + 1]
        return packed(values).reshape(lines, width)
    except (orjson.JSONDecodeError, struct.error):
        return None


def packed(values: Sequence[object]) -> NDArray[np.float64]:
    """Return numbers as an array, by ``struct``, the fastest way.

    Raises:
        struct.error: a value is not a number; ``True`` and ``False`` count as numbers.
    """
    numbers = np.empty(len(values))
    struct.pack_into(f"{len(values)}d", numbers.data, 0, *values)
    return numbers


def packed_rows(rows: Sequence[Sequence[object]], width: int) -> NDArray[np.float64]:
    """Return rows of numbers as an array, without joining the rows first.

    Raises:
        struct.error: a row has another width, or a value that is not a number.
        TypeError: a row is not a sequence.
    """
    # The array of a bytearray is writable for its receiver.
    pieces = starmap(struct.Struct(f"{width}d").pack, rows)
    return np.frombuffer(bytearray().join(pieces)).reshape(-1, width)


def json_text(numbers: NDArray[Any]) -> bytes:
    """Write an array of finite numbers as JSON, with the fewest digits that identify each."""
    return orjson.dumps(writable(numbers), option=orjson.OPT_SERIALIZE_NUMPY)


def writable(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return the same numbers, in a type and order that orjson writes."""
    if numbers.dtype.kind == "b" or numbers.dtype == np.float16:
        numbers = numbers.astype(np.int8 if numbers.dtype.kind == "b" else np.float32)
    return np.ascontiguousarray(numbers)


def json_rows(numbers: NDArray[Any]) -> list[bytes]:
    """Return the rows of a matrix as JSON without brackets."""
    # [[1.0,2.0],[3.0,4.0]]: single bytes are found much faster than three in a row.
    return [row[2:] for row in json_text(numbers).split(b"]")[:-2]]


def number(text: bytes) -> float | None:
    """Parse a number as people write it: ``.5``, ``+1``, ``1.``, ``nan``; None for other text."""
    try:
        # float() also accepts digits of other scripts, and 1_000.
        return float(text) if text.isascii() and b"_" not in text else None
    except ValueError:
        return None
