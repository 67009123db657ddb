"""Cost estimates of prediction work, made before the work.

The unit is one element: a number, a string or an array that is parsed or written by itself takes
0.3 to 1 µs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

#: Bytes of plain text, or of a number's digits, that cost as much as one element.
_BYTES: Final = 16

#: Bytes of a protobuf message, or of binary data, that cost as much as one element: a packed number
#: has one byte, a list element eleven, an empty string four.
_MESSAGE_BYTES: Final = 4

#: Cost of an array in elements, if its own elements cost nothing.
_ARRAY: Final = 3

#: In a body of numbers, all member names are within this many first bytes.
_NAMES: Final = 64

#: Cost of a tensor itself: its name, its shape and its numpy array.
_TENSOR: Final = 8

#: In a longer text elements are not counted: the bytes alone cost more than the loop may spend.
_COUNTED: Final = 64 * 1024

#: Each of these begins or follows an element in JSON.
_MARKS: Final = (b",", b"[", b"{")


def bytes_cost(size: int) -> int:
    """Return the cost of ``size`` bytes in a library that looks at each of them."""
    return size // _BYTES


def message_cost(size: int) -> int:
    """Return the cost of a protobuf message, or of binary data, of ``size`` bytes."""
    return size // _MESSAGE_BYTES


def json_cost(text: bytes) -> int:
    """Return the cost of parsing JSON into Python objects."""
    cost = len(text) // _BYTES
    return cost if len(text) > _COUNTED else cost + sum(map(text.count, _MARKS))


def numbers_cost(text: bytes) -> int:
    """Return the cost of JSON whose numbers stay text; other values become Python objects."""
    if len(text) > _COUNTED or text.find(b'"', _NAMES) >= 0:
        return json_cost(text)
    return len(text) // _BYTES + _ARRAY * text.count(b"[")


def shape_cost(shape: Sequence[int]) -> int:
    """Return the cost of converting a tensor to instances, or predictions to a tensor."""
    cost, within = _TENSOR, 1
    for size in shape:
        within *= size  # arrays; in the last dimension, elements
        cost += within
    return cost
