"""Tensors: their datatypes, and their data as bytes and as JSON.

The protocol's "Tensor Data Types", and "Binary Tensor Request" of the binary tensor data extension.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from partway.protocol.limits import MAX_TENSOR_DIMENSIONS
from partway.protocol.prediction.work_cost import bytes_cost, shape_cost

#: Binary form of an element, by datatype. numpy has no bfloat16, so its bits are kept.
DATATYPES: Final[dict[str, np.dtype[Any]]] = {
    "BOOL": np.dtype("?"),
    "UINT8": np.dtype("u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "BYTES": np.dtype("O"),
}

#: Datatypes without a form in JSON: they are only sent as binary data.
BINARY_ONLY: Final = frozenset({"FP16", "BF16"})

#: The least and the largest number of each integer datatype.
_RANGES: Final = {
    name: (int(np.iinfo(each).min), int(np.iinfo(each).max))
    for name, each in DATATYPES.items()
    if each.kind in "iu" and name != "BF16"
}

_LENGTH: Final = struct.Struct("<I")
_MOST_ELEMENTS: Final = 2**63


class TensorFault(ValueError):
    """An invalid tensor; the text names it, and says what it must be."""


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor with matching shape and elements.

    Attributes:
        name: unique in its request or response.
        datatype: one of :data:`DATATYPES`.
        shape: sizes of the dimensions; none is 0.
        elements: in row-major order, of the datatype's own kind; a BYTES element is ``bytes``.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    elements: NDArray[Any]

    @property
    def numbers(self) -> NDArray[Any]:
        """The elements, except those of BYTES, in a type that numpy computes with."""
        if self.datatype != "BF16":
            return self.elements
        return (self.elements.astype("<u4") << 16).view("<f4")  # its bits are float32's upper half

    def binary(self) -> bytes:
        if self.datatype != "BYTES":
            return self.elements.tobytes()
        return b"".join(chain.from_iterable((_LENGTH.pack(len(e)), e) for e in self.elements))

    def json(self) -> Sequence[object] | NDArray[Any]:
        """Return the elements for JSON, flat; orjson writes them with ``OPT_SERIALIZE_NUMPY``.

        Raises:
            TensorFault: an element has no form in JSON.
        """
        if self.datatype in BINARY_ONLY:
            raise TensorFault(
                f"tensor {shown(self.name)}: {self.datatype} has no form in JSON; ask for it with "
                '"binary_data": true'
            )
        if self.datatype == "BYTES":
            try:
                return [each.decode() for each in self.elements]
            except UnicodeDecodeError:
                raise TensorFault(
                    f"tensor {shown(self.name)}: its bytes are not UTF-8, which JSON needs; ask "
                    'for it with "binary_data": true'
                ) from None
        check_finite(self)
        return self.elements


def from_binary(name: str, datatype: str, shape: Sequence[int], data: bytes) -> Tensor:
    """Make a tensor of binary data: little-endian, row-major, nothing between elements.

    Raises:
        TensorFault: the data does not fit datatype and shape.
    """
    dtype, count = _checked(name, datatype, shape)
    if datatype == "BYTES":
        elements = _bytes_elements(name, data, count)
    else:
        if len(data) != count * dtype.itemsize:
            raise TensorFault(
                f"tensor {shown(name)}: {len(data)} bytes of data were given; "
                f"{_words(datatype, shape)} must have {count * dtype.itemsize}"
            )
        if datatype == "BOOL" and data.translate(None, b"\0\1"):
            raise TensorFault(f"tensor {shown(name)}: a BOOL must be a byte of 0 or 1")
        elements = np.frombuffer(data, dtype)
    return Tensor(name, datatype, tuple(shape), elements)


def from_json(name: str, datatype: str, shape: Sequence[int], data: object) -> Tensor:
    """Make a tensor of a JSON array: a flat one, or nested arrays of its shape.

    Raises:
        TensorFault: the data does not fit datatype and shape.
    """
    _, count = _checked(name, datatype, shape)
    if not isinstance(data, list):
        raise TensorFault(f"tensor {shown(name)}: data must be an array")
    if datatype in BINARY_ONLY:
        raise TensorFault(
            f"tensor {shown(name)}: {datatype} has no form in JSON; it must come as binary data, "
            'with "binary_data_size"'
        )
    flat = data
    if data and isinstance(data[0], list):
        flat = _flattened(name, shape, data)
    if len(flat) != count:
        raise TensorFault(
            f"tensor {shown(name)}: {len(flat)} elements were given; {_words(datatype, shape)} "
            f"must have {count}"
        )
    return from_elements(name, datatype, shape, flat)


def from_elements(name: str, datatype: str, shape: Sequence[int], flat: list[Any]) -> Tensor:
    """Make a tensor of Python values, as many as the shape has.

    Raises:
        TensorFault: an element is not of the datatype.
    """
    dtype = DATATYPES[datatype]
    kinds = set(map(type, flat))
    if datatype == "BYTES":
        if kinds <= {str}:
            flat = [each.encode() for each in flat]
        elif not kinds <= {bytes}:
            raise TensorFault(f"tensor {shown(name)}: an element of BYTES must be a string")
        elements = np.empty(len(flat), dtype)
        elements[:] = flat
    elif datatype == "BOOL":
        if not kinds <= {bool}:
            raise TensorFault(f"tensor {shown(name)}: an element of BOOL must be true or false")
        elements = np.array(flat, dtype)
    elif dtype.kind == "f":
        if not kinds <= {int, float}:
            raise TensorFault(f"tensor {shown(name)}: an element of {datatype} must be a number")
        elements = _floats(name, datatype, flat)
    else:
        least, most = _RANGES[datatype]
        if not kinds <= {int} or not least <= min(flat) <= max(flat) <= most:
            raise TensorFault(
                f"tensor {shown(name)}: an element of {datatype} must be a whole number from "
                f"{least} to {most}"
            )
        elements = np.array(flat, dtype)
    return Tensor(name, datatype, tuple(shape), elements)


def check_finite(tensor: Tensor) -> None:
    """Raise TensorFault if the tensor has NaN or an infinity, which JSON lacks."""
    if tensor.datatype in _RANGES:
        return
    numbers = tensor.numbers
    if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
        raise TensorFault(
            f"tensor {shown(tensor.name)}: it holds NaN or Infinity, but it must travel as JSON, "
            "which has only finite numbers (RFC 8259 §6)"
        )


def tensors_cost(tensors: Iterable[Tensor]) -> int:
    """The cost of tensors; see :mod:`~partway.protocol.prediction.work_cost`."""
    return sum(shape_cost(each.shape) + bytes_cost(each.elements.nbytes) for each in tensors)


def shown(name: str) -> str:
    """Shorten a tensor's name for a message: it may be any text, of any length."""
    return repr(name if len(name) <= 64 else f"{name[:61]}...")


# --- Shapes --------------------------------------------------------------------------------------


def _checked(name: str, datatype: str, shape: Sequence[int]) -> tuple[np.dtype[Any], int]:
    dtype = DATATYPES.get(datatype)
    if dtype is None:
        raise TensorFault(f"tensor {shown(name)}: datatype must be one of {', '.join(DATATYPES)}")
    if len(shape) > MAX_TENSOR_DIMENSIONS:
        raise TensorFault(
            f"tensor {shown(name)}: its shape has {len(shape)} dimensions; it must have at most "
            f"{MAX_TENSOR_DIMENSIONS}"
        )
    if not shape or min(shape) < 1 or (count := math.prod(shape)) >= _MOST_ELEMENTS:
        raise TensorFault(
            f"tensor {shown(name)}: its shape must have at least one dimension; each must be 1 or "
            "more, and their product below 2^63"
        )
    return dtype, count


def _words(datatype: str, shape: Sequence[int]) -> str:
    return f"{datatype} of shape {list(shape)}"


def _flattened(name: str, shape: Sequence[int], data: list[Any]) -> list[Any]:
    """Flatten nested arrays, which must have the lengths of the shape."""
    level = data
    for place, size in enumerate(shape):
        if place:
            if set(map(type, level)) != {list} or set(map(len, level)) != {size}:
                break
            level = list(chain.from_iterable(level))
        elif len(level) != size:
            break
    else:
        if not any(type(each) is list for each in level):
            return level
    raise TensorFault(
        f"tensor {shown(name)}: data must be one flat array of all elements, or nested arrays of "
        f"the shape {list(shape)}"
    )


# --- Elements ------------------------------------------------------------------------------------


def _bytes_elements(name: str, data: bytes, count: int) -> NDArray[Any]:
    elements: list[bytes] = []
    place = 0
    while place < len(data) and len(elements) < count:
        begin = place + _LENGTH.size
        place = len(data) + 1 if begin > len(data) else begin + _LENGTH.unpack_from(data, place)[0]
        elements.append(data[begin:place])
    if place != len(data) or len(elements) != count:
        raise TensorFault(
            f"tensor {shown(name)}: its data must be {count} elements; each begins with its length "
            "in 4 bytes, little-endian, and has that many bytes after it"
        )
    found = np.empty(count, np.dtype("O"))
    found[:] = elements
    return found


def _floats(name: str, datatype: str, flat: list[Any]) -> NDArray[Any]:
    try:
        with np.errstate(over="ignore"):
            elements = np.array(flat, np.float64).astype(DATATYPES[datatype])
    except OverflowError:
        elements = None
    if elements is None or not np.isfinite(elements).all():
        raise TensorFault(f"tensor {shown(name)}: an element is outside the range of {datatype}")
    return elements
