"""A record as a tensor, by the same rules in JSON and protobuf."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partway.protocol.formats.batches import Numbers
from partway.protocol.limits import MAX_WIDTH


@dataclass(frozen=True, slots=True, eq=False)
class TensorRow:
    """The numbers of one record.

    Attributes:
        values: the features; for a sparse record, its stored numbers.
        keys: the column of each number, from 0, each once; None for a dense record.
    """

    values: Numbers
    keys: NDArray[np.int64] | None
    width: int


def tensor_row(values: Numbers, keys: Numbers, shape: Numbers, width: int | None) -> TensorRow:
    """Read a tensor's three members; each may be empty.

    Without keys the record is dense, or all zero if it has a shape and no values. With several
    dimensions, features are counted in row-major order.

    Values may have any type. Keys and shape are whole numbers, as integers or floats.

    Raises:
        ValueError: the members contradict each other.
    """
    size = _size(shape) if len(shape) else None
    if not len(keys) and (len(values) or size is None):
        if size is not None and size != len(values):
            raise ValueError(
                f"there are {len(values)} values for a shape of {size} features; there must be "
                f"{size}, or keys that name their columns"
            )
        return TensorRow(values, None, len(values))
    if len(keys) != len(values):
        raise ValueError(
            f"there are {len(keys)} keys and {len(values)} values; there must be one key for each "
            "value"
        )
    size = width if size is None else size
    if size is None:
        raise ValueError("there are keys without a shape; there must be one: [number of features]")
    return TensorRow(values, checked_keys(keys, size), size)


def checked_keys(keys: Numbers, width: int) -> NDArray[np.int64]:
    """Check that each key is a column of the record, and appears once; raises ValueError."""
    if not ((keys >= 0) & (keys < width) & (keys == np.floor(keys))).all():
        raise ValueError(f"keys must be whole numbers from 0 to {width - 1}")
    whole = keys.astype(np.int64)
    if len(np.unique(whole)) != len(whole):
        raise ValueError("a key appears twice; each key must appear once")
    return whole


def _size(shape: Numbers) -> int:
    if not ((shape >= 1) & (shape <= MAX_WIDTH) & (shape == np.floor(shape))).all():
        raise ValueError(f"shape must be whole numbers from 1 to {MAX_WIDTH}")
    size = math.prod(map(int, shape))
    if size > MAX_WIDTH:
        raise ValueError(f"the shape has too many features; it must have at most {MAX_WIDTH}")
    return size
