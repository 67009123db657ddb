"""Tensors as the text of instances, written in blocks.

A row is the innermost array of a tensor that has several elements. Each row of numbers is one text,
and arrays around rows are joins of texts. Arrays of one element need no join: their brackets are
part of the separators. So the cost grows with the number of elements, for every shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from json.encoder import encode_basestring
from typing import Any, Final

import orjson
from numpy.typing import NDArray

from partway.protocol.json.base64_text import encoded
from partway.protocol.open_inference.tensors import Tensor, check_finite
from partway.protocol.prediction.checkpoints import checkpoint

#: A tensor whose name ends so is always binary (TF Serving).
_BINARY_NAME: Final = "_bytes"

#: Elements of a block, which takes 0.1 to 1 ms. orjson holds more than a hundred bytes for each
#: array, and Python forty for each text.
_BLOCK: Final = 4096


def instance_texts(inputs: Sequence[Tensor], *, named: bool, wrap: bool) -> Iterator[bytes]:
    """Yield the texts of instances in blocks, with commas between instances.

    Args:
        inputs: tensors with the same number of instances.
        named: whether an instance is an object by the names of its tensors; otherwise there is one
            tensor.
        wrap: whether each instance is wrapped: ``{"data": …}``.

    Raises:
        TensorFault: an element has no form in JSON.
    """
    columns = [_Column(each) for each in inputs]
    start, end = (b'{"data":', b"}") if wrap else (b"", b"")
    seams = [start]
    for number, (column, tensor) in enumerate(zip(columns, inputs, strict=True)):
        if named:
            seams[-1] += b"%b%b:" % (b"," if number else b"{", orjson.dumps(tensor.name))
        seams[-1] += column.open
        seams.append(column.close)
    first, *between, last = seams
    last += (b"}" if named else b"") + end
    before = [last + b"," + first, *between]
    count = inputs[0].shape[0]
    step = max(1, _BLOCK // sum(each.elements for each in columns))
    for begin in range(0, count, step):
        checkpoint()
        several = min(begin + step, count) - begin
        pieces = [b""] * (2 * len(columns) * several)
        for number, column in enumerate(columns):
            pieces[2 * number :: 2 * len(columns)] = [before[number]] * several
            pieces[2 * number + 1 :: 2 * len(columns)] = column.texts(begin, begin + several)
        pieces[0] = first
        yield b"".join((*pieces, last))


class _Column:
    """One tensor's part of each instance: texts, and the brackets around each text.

    Attributes:
        open: the brackets before each text.
        close: the brackets after each text.
    """

    def __init__(self, tensor: Tensor) -> None:
        sizes = list(tensor.shape[1:])
        self.elements = math.prod(sizes)
        brackets = 0
        while sizes and sizes[-1] == 1:
            sizes.pop()
            brackets += 1
        self._row = sizes.pop() if sizes else 1
        self._rows = _rows_of(tensor, self._row, b"]" * brackets + b"," + b"[" * brackets)
        if self._row > 1:
            brackets += 1
        #: The arrays around rows, innermost first: the number of texts in each, and the brackets
        #: around each of those texts.
        self._arrays: list[tuple[int, int]] = []
        for size in reversed(sizes):
            if size > 1:
                self._arrays.append((size, brackets))
                brackets = 0
            brackets += 1
        self.open, self.close = b"[" * brackets, b"]" * brackets

    def texts(self, begin: int, end: int) -> list[bytes]:
        rows = self.elements // self._row
        step = max(1, _BLOCK // self._row)
        texts: list[bytes] = []
        for place in range(begin * rows, end * rows, step):
            checkpoint()
            texts += self._rows(place, min(place + step, end * rows))
        for size, brackets in self._arrays:
            texts = _joined(texts, size, b"[" * brackets, b"]" * brackets)
        return texts


def _joined(texts: list[bytes], size: int, before: bytes, behind: bytes) -> list[bytes]:
    """Join groups of ``size`` texts by commas, each with a text before and after it."""
    between = behind + b"," + before
    places = range(0, len(texts), size)
    return [before + between.join(texts[place : place + size]) + behind for place in places]


def _rows_of(tensor: Tensor, size: int, between: bytes) -> Callable[[int, int], list[bytes]]:
    """Make a function that writes a range of rows, each of ``size`` elements.

    Raises:
        TensorFault: an element has no form in JSON.
    """
    if tensor.datatype == "BYTES":
        elements = tensor.elements
        written = _strings if _is_text(tensor) else _base64

        def strings(begin: int, end: int) -> list[bytes]:
            texts = written(elements[begin * size : end * size].tolist())
            if size == 1:
                return texts
            places = range(0, len(texts), size)
            return [between.join(texts[place : place + size]) for place in places]

        return strings
    check_finite(tensor)
    flat = tensor.numbers

    def numbers(begin: int, end: int) -> list[bytes]:
        rows = flat[begin * size : end * size]
        if size == 1:
            return _dumped(rows)[1:-1].split(b",")
        texts = _dumped(rows.reshape(-1, size))[2:-2].split(b"],[")
        return texts if between == b"," else [each.replace(b",", between) for each in texts]

    return numbers


def _dumped(numbers: NDArray[Any]) -> bytes:
    return orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY)


def _is_text(tensor: Tensor) -> bool:
    """Whether all elements are UTF-8: a container must find one kind of elements in a tensor."""
    if tensor.name.endswith(_BINARY_NAME):
        return False
    try:
        for each in tensor.elements:
            each.decode()
    except UnicodeDecodeError:
        return False
    return True


def _strings(elements: list[bytes]) -> list[bytes]:
    # orjson would keep a kilobyte for each text.
    return [encode_basestring(each.decode()).encode() for each in elements]


def _base64(elements: list[bytes]) -> list[bytes]:
    return [b'{"b64":"%b"}' % encoded(each).encode() for each in elements]
