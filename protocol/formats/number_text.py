"""Numbers in text, many at a time."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import starmap
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

#: Stands for a line's end in a text that is read as one array of JSON.
MARK: Final = b",null,"


def comma_separated(text: bytes) -> NDArray[np.float64] | None:
    """Numbers between commas, where all of them are written as in JSON.

    That is how programs write them; :func:`number` reads what people write. Both round correctly.

    Returns:
        The numbers, in one dimension; None where one is written otherwise, or is no number.
    """
    rows = number_lines(text)
    return None if rows is None or len(rows) != 1 else rows[0]


def lines_ended(text: bytes, marked: bytes) -> int:
    """How many ends of lines :data:`MARK` has replaced; ``bytes.count`` looks at every byte."""
    return (len(marked) - len(text)) // (len(MARK) - 1)


def number_lines(text: bytes) -> NDArray[np.float64] | None:
    """Lines of such numbers, as many on each.

    Returns:
        (lines, numbers on a line); None where there is anything else.
    """
    # Of JSON's words these two are numbers to Python. What else there may be, packed() refuses.
    if b"u" in text or b"l" in text:
        return None
    try:
        # Each line's end becomes a mark among the numbers, which shows that the lines are alike.
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
    """Numbers as an array, by ``struct``, which does the least for each of them.

    Raises:
        struct.error: one is no number; ``True`` and ``False`` are numbers to Python.
    """
    numbers = np.empty(len(values))
    struct.pack_into(f"{len(values)}d", numbers.data, 0, *values)
    return numbers


def packed_rows(rows: Sequence[Sequence[object]], width: int) -> NDArray[np.float64]:
    """The same of rows, none of them joined with others first.

    Raises:
        struct.error: one has another width, or something that is no number.
        TypeError: one is no sequence.
    """
    # Of a bytearray it is an array that whoever gets it may write to.
    pieces = starmap(struct.Struct(f"{width}d").pack, rows)
    return np.frombuffer(bytearray().join(pieces)).reshape(-1, width)


def json_text(numbers: NDArray[Any]) -> bytes:
    """An array of finite numbers as JSON, in as few digits as tell each from its neighbours."""
    return orjson.dumps(writable(numbers), option=orjson.OPT_SERIALIZE_NUMPY)


def writable(numbers: NDArray[Any]) -> NDArray[Any]:
    """The same numbers, of a type and in an order that orjson writes."""
    if numbers.dtype.kind == "b" or numbers.dtype == np.float16:
        numbers = numbers.astype(np.int8 if numbers.dtype.kind == "b" else np.float32)
    return np.ascontiguousarray(numbers)


def json_rows(numbers: NDArray[Any]) -> list[bytes]:
    """The rows of a matrix, each as JSON has it without its brackets."""
    # [[1.0,2.0],[3.0,4.0]]: single bytes are found much faster than three in a row.
    return [row[2:] for row in json_text(numbers).split(b"]")[:-2]]


def number(text: bytes) -> float | None:
    """A number as people write it: ``.5``, ``+1``, ``1.``, ``nan``; None for anything else."""
    try:
        # float() takes any script's digits, and 1_000.
        return float(text) if text.isascii() and b"_" not in text else None
    except ValueError:
        return None
