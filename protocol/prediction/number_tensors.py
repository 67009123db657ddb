"""Tensors of numbers in JSON, read for their shape alone: none of their numbers is made.

Bodies of predictions are mostly that. Their text goes on as it came, so of a number it matters only
that it is one (RFC 8259 §6); to make it takes longer than all else that is done with it.
"""

from __future__ import annotations

import re
from itertools import chain
from math import inf
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.json import Decoder

from partway.protocol.limits import MAX_TENSOR_DIMENSIONS

_SPACE: Final = r"[ \t\r\n]*"

#: An object's member that is an array, behind nothing but the member that TF Serving's clients put
#: before it: so it is a member of the outermost object, whatever follows.
_HEAD: Final = (
    r'{space}\{{{space}(?:"signature_name"{space}:{space}"\w*"{space},{space})?'
    r'"{name}"{space}:{space}(?=(?P<opens>(?:\[{space}){{1,{most}}}))'
)


class _Row(msgspec.Struct, array_like=True, gc=False):
    """An array of anything: what it has more than these members, of which it has none, is skipped.

    Whether that is valid is seen all the same.
    """


#: What reads a tensor, by how many dimensions it has: its rows' elements are skipped.
_READERS: Final[dict[int, Decoder[Any]]] = {
    1: Decoder(_Row),
    2: Decoder(list[_Row]),
    3: Decoder(list[list[_Row]]),
    4: Decoder(list[list[list[_Row]]]),
}

#: Of a tensor of more dimensions: whether it is valid.
_READER: Final = Decoder(msgspec.Raw)

#: All that is not the skeleton of arrays.
_FLESH: Final = bytes({*range(256)} - {*b"[],"})

_EMPTY: Final = re.compile(rf"\[{_SPACE}\]".encode())

#: An array takes as long to read as so many bytes of numbers: an object is made of it.
ARRAY_EFFORT: Final = 48


class NumberTensor(NamedTuple):
    """Where a tensor of numbers is in the text of an object.

    Attributes:
        begin: where it begins.
        end: where it ends.
        length: how many elements its first dimension has.
    """

    begin: int
    end: int
    length: int


class TensorFinder:
    """Finds a member of a text's outermost object, if it is a tensor of numbers.

    Args:
        name: the member's, of letters.
    """

    def __init__(self, name: str) -> None:
        most = MAX_TENSOR_DIMENSIONS + 1
        head = _HEAD.format(space=_SPACE, name=name, most=most)
        self._head = re.compile(head.encode(), re.ASCII)

    def find(self, text: bytes, effort: float = inf) -> NumberTensor | None:
        """Find it, in time that grows with the text alone.

        Args:
            text: of what may be JSON. Where a tensor is found, the text is JSON if and only if it
                would be with any other value in the tensor's place.
            effort: what it may take to read the tensor, in bytes of numbers.

        Returns:
            None also where that cannot be said as easily. A tensor has no string, but ``true``,
            ``false``, ``null`` and ``{}`` may be among its numbers. One of more than four
            dimensions has eight at most, and its arrays are as long as each other.
        """
        head = self._head.match(text)
        if head is None:
            return None
        begin = head.end()
        # A string's quote ends the search: to find it takes a fiftieth of what it takes to read.
        quote = text.find(b'"', begin)
        end = text.rfind(b"]", begin, quote if quote >= 0 else len(text)) + 1
        dimensions = head["opens"].count(b"[")
        if not end or dimensions > MAX_TENSOR_DIMENSIONS:
            return None
        beside = text.count(b"[", 0, begin) + text.count(b"[", end)
        arrays = text.count(b"[") - beside
        if end - begin + arrays * ARRAY_EFFORT > effort:
            return None
        reader = _READERS.get(dimensions, _READER)
        try:
            read = reader.decode(memoryview(text)[begin:end])
        except (msgspec.MsgspecError, RecursionError):
            return None
        if reader is _READER:
            length = _length(text[begin:end].translate(None, _FLESH), dimensions)
            return None if length is None else NumberTensor(begin, end, length)
        if arrays != _count_arrays(read, dimensions):
            return None  # there are arrays in its rows, and nobody has seen how deep
        if dimensions > 1:
            length = len(read)
        else:
            # A row, whose elements were skipped. None is an array or a string, where commas may be.
            length = 0 if _EMPTY.match(text, begin) else text.count(b",", begin, end) + 1
        return NumberTensor(begin, end, length)


def _length(skeleton: bytes, dimensions: int) -> int | None:
    """How long the first dimension of a tensor is; None where arrays differ in length.

    The skeleton of a tensor like that follows from its first array of each dimension.

    Args:
        skeleton: brackets and commas alone, of valid JSON.
        dimensions: how many brackets it begins with.
    """
    array = skeleton[dimensions - 1 : skeleton.find(b"]") + 1]
    length = 0
    for begin in range(dimensions - 1, 0, -1):
        end = skeleton.find(array + b"]", begin)
        others, rest = divmod(end - begin, len(array) + 1)
        if end < 0 or rest:
            return None
        length = others + 1
        array = b"[%b]" % b",".join([array] * length)
    return length if array == skeleton else None


def _count_arrays(tensor: Any, dimensions: int) -> int:
    """How many arrays a tensor is made of, itself among them; one of one dimension is a row."""
    count = 1
    level = tensor
    for left in range(dimensions - 1, 0, -1):
        count += len(level)
        if left > 1:
            level = list(chain.from_iterable(level))
    return count
