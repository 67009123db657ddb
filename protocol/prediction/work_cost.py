"""Estimates of what work on predictions costs, before it is done.

The unit is one element: a number, a string or an array that is read or written by itself takes
between a third of a microsecond and a whole one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_check: Final[ContextVar[Callable[[], None] | None]] = ContextVar("checkpoint", default=None)


def checkpoint() -> None:
    """Go on, unless the caller of the work wants it to end.

    Raises:
        Exception: the caller's own, by which the work ends.
    """
    check = _check.get()
    if check is not None:
        check()


@contextmanager
def checked_by(check: Callable[[], None]) -> Iterator[None]:
    """Have the checkpoints in the block call a function.

    Args:
        check: raises to end the work; called on the thread that works.
    """
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


#: Bytes of plain text, or of a number's digits, that cost as much as an element.
_BYTES: Final = 16

#: Bytes of a message of protobuf, or of binary data: a packed number has one, an element of a list
#: eleven, an empty string four.
_MESSAGE_BYTES: Final = 4

#: An array costs as much as so many elements where its own elements cost nothing.
_ARRAY: Final = 3

#: No name of a member begins behind so many bytes of a body of numbers.
_NAMES: Final = 64

#: A tensor by itself: its name, its shape and its array of numpy.
_TENSOR: Final = 8

#: In a longer text elements are not counted: its bytes alone cost more than the loop may do.
_COUNTED: Final = 64 * 1024

#: Each begins, or follows, an element in JSON.
_MARKS: Final = (b",", b"[", b"{")


def bytes_cost(size: int) -> int:
    """The cost of so many bytes in a library that looks at each of them."""
    return size // _BYTES


def message_cost(size: int) -> int:
    """The cost of a message of protobuf, or of binary data, of so many bytes."""
    return size // _MESSAGE_BYTES


def json_cost(text: bytes) -> int:
    """The cost of a text of JSON, as Python has its values."""
    cost = len(text) // _BYTES
    return cost if len(text) > _COUNTED else cost + sum(map(text.count, _MARKS))


def numbers_cost(text: bytes) -> int:
    """The cost of a text of JSON that stays text, as numbers do; others become Python's values."""
    if len(text) > _COUNTED or text.find(b'"', _NAMES) >= 0:
        return json_cost(text)
    return len(text) // _BYTES + _ARRAY * text.count(b"[")


def shape_cost(shape: Sequence[int]) -> int:
    """The cost of a tensor as instances, or of predictions as a tensor.

    Args:
        shape: how many elements it has in each dimension.
    """
    cost, within = _TENSOR, 1
    for size in shape:
        within *= size  # arrays; in the last dimension, elements
        cost += within
    return cost
