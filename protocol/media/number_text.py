"""Numbers in text, many at a time."""

from __future__ import annotations

from array import array
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

#: What numbers between commas are made of. With other characters there could be words of JSON.
_CHARACTERS: Final = b"0123456789+-.eE, \t\r"


def comma_separated(text: bytes) -> NDArray[np.float64] | None:
    """Numbers between commas, where all of them are written as in JSON.

    That is how programs write them; :func:`number` reads what people write. Both round correctly.

    Returns:
        The numbers, in one dimension; None where one is written otherwise, or is no number.
    """
    if text.translate(None, _CHARACTERS):
        return None
    try:
        return np.frombuffer(array("d", orjson.loads(b"[%b]" % text)))
    except orjson.JSONDecodeError:
        return None


def json_rows(numbers: NDArray[Any]) -> bytes:
    """An array of finite numbers as JSON, in as few digits as tell each from its neighbours."""
    if numbers.dtype.kind == "b" or numbers.dtype == np.float16:
        numbers = numbers.astype(np.int8 if numbers.dtype.kind == "b" else np.float32)
    return orjson.dumps(np.ascontiguousarray(numbers), option=orjson.OPT_SERIALIZE_NUMPY)


def number(text: bytes) -> float | None:
    """A number as people write it: ``.5``, ``+1``, ``1.``, ``nan``; None for anything else."""
    try:
        # float() takes any script's digits, and 1_000.
        return float(text) if text.isascii() and b"_" not in text else None
    except ValueError:
        return None
