"""Tensors of every datatype, and what their bytes are by ``struct`` alone: a model beside numpy."""

from __future__ import annotations

import math
import struct
from itertools import chain

from hypothesis import strategies as st

#: What ``struct`` calls an element.
CODES = {
    "BOOL": "?",
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
    "FP16": "e",
    "FP32": "f",
    "FP64": "d",
}

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def elements_of(datatype):
    """A strategy of elements, as Python has them and exactly what the datatype holds."""
    if datatype == "BOOL":
        return st.booleans()
    if datatype == "BYTES":
        return st.binary(max_size=6)
    if datatype in ("FP16", "FP32", "FP64"):
        width = int(datatype[2:])
        return st.floats(width=width, allow_nan=False, allow_infinity=False)
    bits = int(datatype.lstrip("UINT"))
    if datatype.startswith("U"):
        return st.integers(0, 2**bits - 1)
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def binary(datatype, flat):
    if datatype == "BYTES":
        return b"".join(struct.pack("<I", len(each)) + each for each in flat)
    return struct.pack(f"<{len(flat)}{CODES[datatype]}", *flat)


def nested(shape, flat):
    """The elements in arrays as the shape has them."""
    if len(shape) == 1:
        return list(flat)
    size = math.prod(shape[1:])
    return [nested(shape[1:], flat[place : place + size]) for place in range(0, len(flat), size)]


@st.composite
def tensors(draw, datatypes=(*CODES, "BYTES"), shapes=SHAPES):
    """A datatype, a shape, and the elements."""
    datatype, shape = draw(st.sampled_from(datatypes)), draw(shapes)
    count = math.prod(shape)
    flat = draw(st.lists(elements_of(datatype), min_size=count, max_size=count))
    return datatype, shape, flat


def flattened(values):
    """The elements of arrays in one another."""
    if values and isinstance(values[0], list):
        return flattened(list(chain.from_iterable(values)))
    return values
