"""Records: a row of numbers each, as wide as the centroids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from partway.container.errors import ModelError
from partway.container.models.kmeans.centroids import LARGEST

#: Most records of one body. As JSON they are answered with 70 MiB.
MAX_RECORDS: Final = 1 << 20


class BadRecord(ModelError):
    """A record, or a body, that cannot be measured: 400.

    Reasons are logged, so they never quote what was sent.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason, status=400)


@dataclass(frozen=True, slots=True)
class Sparse:
    """A record that is zero but for some of its features.

    Attributes:
        keys: the numbers of those features, each once.
        values: the features' values, in the same order.
    """

    keys: NDArray[np.int64]
    values: NDArray[np.float64]


Record = NDArray[np.float64] | Sparse


def dense(values: Sequence[float], width: int) -> NDArray[np.float64]:
    """A record of all its features.

    Raises:
        ValueError: there are more or fewer features than the centroids have.
    """
    if len(values) != width:
        raise ValueError(
            f"the record has {len(values)} features; it must have {width}, as the centroids have"
        )
    return np.array(values, np.float64)


def sparse(
    keys: Sequence[float], values: Sequence[float], shape: Sequence[float] | None, width: int
) -> Record:
    """A record as a tensor has it.

    Args:
        keys: which features are not zero; empty for a dense record.
        values: the values of those features.
        shape: how many features there are, in a list of one; None or empty where it is not said.
        width: how many features a centroid has.

    Raises:
        ValueError: these are not the features of one record of that width.
    """
    if shape and list(shape) != [width]:
        raise ValueError(f"shape must be [{width}], as the centroids have it")
    if not keys and (values or not shape):
        return dense(values, width)
    if len(keys) != len(values):
        raise ValueError(
            f"there are {len(keys)} keys and {len(values)} values; there must be as many"
        )
    numbers = np.array(keys, np.float64)
    if not ((numbers >= 0) & (numbers < width) & (numbers == np.floor(numbers))).all():
        raise ValueError(f"keys must be whole numbers from 0 to {width - 1}")
    indices = numbers.astype(np.int64)
    if len(np.unique(indices)) != len(indices):
        raise ValueError("a key comes twice; it must come once")
    return Sparse(indices, np.array(values, np.float64))


def matrix(records: Sequence[Record], width: int, first: int = 0) -> NDArray[np.float64]:
    """Records as the rows of a matrix.

    Args:
        records: records of that width.
        width: how many features a centroid has.
        first: the number of the first record in its request.

    Raises:
        BadRecord: a number is NaN, infinite, or so large that a distance might be.
    """
    rows = np.zeros((len(records), width))
    for row, record in zip(rows, records, strict=True):
        if isinstance(record, Sparse):
            row[record.keys] = record.values
        else:
            row[:] = record
    fine = (np.abs(rows) <= LARGEST).all(axis=1)
    if not fine.all():
        raise BadRecord(
            f"record {first + int(fine.argmin())}: a number is NaN, infinite or beyond "
            f"{LARGEST:g}; it must be finite and at most that"
        )
    return rows
