"""Tensors of numbers in JSON, parsed for their shape alone: no number is created.

Most prediction bodies are such tensors. Their text is passed on unchanged, so only the validity of
each number matters (RFC 8259 §6). Creating the numbers would take longer than all other work.
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

#: Matches an array member at the beginning of the body, optionally after the member that TF
#: Serving's clients put first. So it is a member of the outermost object, whatever follows.
_HEAD: Final = (
    r'{space}\{{{space}(?:"signature_name"{space}:{space}"\w*"{space},{space})?'
    r'"{name}"{space}:{space}(?=(?P<opens>(?:\[{space}){{1,{most}}}))'
)


class _Row(msgspec.Struct, array_like=True, gc=False):
    """An array of anything. Its elements are skipped, because the struct has no members.

    The elements are still checked for validity.
    """


#: Readers of tensors, by number of dimensions; the elements of rows are skipped.
_READERS: Final[dict[int, Decoder[Any]]] = {
    1: Decoder(_Row),
    2: Decoder(list[_Row]),
    3: Decoder(list[list[_Row]]),
    4: Decoder(list[list[list[_Row]]]),
}

#: The reader of a tensor with more dimensions: it only checks validity.
_READER: Final = Decoder(msgspec.Raw)

#: All bytes that do not belong to the skeleton of arrays.
_FLESH: Final = bytes({*range(256)} - {*b"[],"})

_EMPTY: Final = re.compile(rf"\[{_SPACE}\]".encode())

#: Cost of parsing an array, as bytes of numbers: an object is created for it.
ARRAY_EFFORT: Final = 48


class NumberTensor(NamedTuple):
    """The place of a tensor of numbers in the text of an object.

    Attributes:
        length: number of elements in its first dimension.
    """

    begin: int
    end: int
    length: int


class TensorFinder:
    """Finds a member of a text's outermost object, if it is a tensor of numbers.

    Args:
        name: the member's name, only letters.
    """

    def __init__(self, name: str) -> None:
        most = MAX_TENSOR_DIMENSIONS + 1
        head = _HEAD.format(space=_SPACE, name=name, most=most)
        self._head = re.compile(head.encode(), re.ASCII)

    def find(self, text: bytes, effort: float = inf) -> NumberTensor | None:
        """Find the tensor, in time that grows linearly with the text.

        Args:
            text: a text that may be JSON. If a tensor is found, the text is JSON if and only if it
                would be with any other value in the tensor's place.
            effort: the largest cost of parsing the tensor, in bytes of numbers.

        Returns:
            The tensor; None if there is none, or if it cannot be found this cheaply. A tensor has
            no string, but ``true``, ``false``, ``null`` and ``{}`` may be among its numbers. A
            tensor of five to eight dimensions must not be ragged.
        """
        head = self._head.match(text)
        if head is None:
            return None
        begin = head.end()
        # A string's quote ends the search. Finding it takes a fiftieth of the time of parsing.
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
            return None  # its rows hold arrays of unknown depth
        if dimensions > 1:
            length = len(read)
        else:
            # The elements of a row were skipped. None of them is an array or a string, so all
            # commas separate elements.
            length = 0 if _EMPTY.match(text, begin) else text.count(b",", begin, end) + 1
        return NumberTensor(begin, end, length)


def _length(skeleton: bytes, dimensions: int) -> int | None:
    """Return the length of a tensor's first dimension; None if arrays differ in length.

    The skeleton of a regular tensor follows from its first array in each dimension.

    Args:
        skeleton: the brackets and commas of valid JSON.
        dimensions: number of brackets at its beginning.
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
    """Count the arrays of a tensor, itself included; a tensor of one dimension is a row."""
    count = 1
    level = tensor
    for left in range(dimensions - 1, 0, -1):
        count += len(level)
        if left > 1:
            level = list(chain.from_iterable(level))
    return count
