"""Batches of records as arrays, independent of the body's format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

from typing import Final

Numbers = NDArray[Any]
_Kept = TypeVar("_Kept")

#: Numbers that BLAS adds in one call: a run out of each quarter of the array, since reading memory
#: in four places is faster. The runs are shorter than those for which OpenBLAS starts threads (2304
#: x 4).
_QUARTERS: Final = 4

_RUN: Final = 1024

#: Vectors of ones, for the types that BLAS supports: the product of numbers and ones is their sum.
_ONES: Final[dict[np.dtype[Any], Numbers]] = {
    np.dtype(each): np.ones(_RUN, each) for each in (np.float32, np.float64)
}


@dataclass(frozen=True, slots=True, eq=False)
class SparseRows:
    """Sparse rows: a matrix in CSR form.

    Attributes:
        values: the numbers that are not zero, row by row.
        keys: the column of each number, from 0; each column appears once per row, in any order.
        starts: the place of each row in ``values`` and ``keys``, and the end of the last row: rows
            + 1 numbers.
    """

    values: Numbers
    keys: NDArray[np.int64]
    starts: NDArray[np.int64]
    width: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def dense(self, start: int = 0, stop: int | None = None) -> Numbers:
        """Return some rows, by default all, as a dense array (rows, width)."""
        some = self.rows(start, stop)
        array = np.zeros((len(some), self.width), self.dtype)
        array[some.row_numbers(), some.keys] = some.values
        return array

    def rows(self, start: int = 0, stop: int | None = None) -> SparseRows:
        start, stop, _ = slice(start, stop).indices(len(self))
        first, last = int(self.starts[start]), int(self.starts[max(start, stop)])
        starts = self.starts[start : max(start, stop) + 1] - first
        return SparseRows(self.values[first:last], self.keys[first:last], starts, self.width)

    def row_numbers(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def to_scipy(self) -> csr_matrix:
        """Convert to scipy's CSR matrix; raises ImportError if scipy is not installed."""
        from scipy.sparse import csr_matrix

        return csr_matrix((self.values, self.keys, self.starts), shape=(len(self), self.width))


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Records of one body, in order.

    Attributes:
        features: (records, width); a single sparse record makes them all :class:`SparseRows`. From
            text they are float64; other formats name their type.
        labels: (records, labels); None if the records have none.
        uid: each record's uid, with None for a record that has none; None if no record has one. The
            same holds for the next three.
        metadata: each record's metadata.
        queries: the number of the query that each record answers (``qid`` in ``text/libsvm``).
        configurations: each record's configuration: a JSON object, or the text of a protobuf
            record.
        configuration: the configuration beside the records, if the body was decoded as a whole.
        first: the number of the first record in its body.
    """

    features: Numbers | SparseRows
    labels: Numbers | None = None
    uid: Sequence[str | None] | None = None
    metadata: Sequence[str | None] | None = None
    configurations: Sequence[Mapping[str, Any] | str | None] | None = None
    configuration: Mapping[str, Any] | None = None
    first: int = 0
    queries: Sequence[int | None] | None = None

    def __len__(self) -> int:
        return len(self.features)

    @property
    def width(self) -> int:
        if isinstance(self.features, SparseRows):
            return self.features.width
        width: int = self.features.shape[1]
        return width

    def dense(self, start: int = 0, stop: int | None = None) -> Numbers:
        if isinstance(self.features, SparseRows):
            return self.features.dense(start, stop)
        return self.features[start:stop]

    def place_of(self, number: int) -> tuple[int, int]:
        """Return the row and the column of a number, counted among the features.

        The number is counted row by row; in sparse rows, among the values only.
        """
        if isinstance(self.features, SparseRows):
            rows = self.features
            row = int(np.searchsorted(rows.starts, number, "right")) - 1
            return row, int(rows.keys[number])
        return divmod(number, self.width)

    def sparse(self) -> SparseRows:
        """Return the features as sparse rows; for dense records every number is kept."""
        return self.features if isinstance(self.features, SparseRows) else as_sparse(self.features)


def as_sparse(features: Numbers) -> SparseRows:
    """Convert a matrix to sparse rows that keep all numbers, zeros too."""
    rows, width = features.shape
    keys = np.tile(np.arange(width), rows)
    return SparseRows(features.reshape(-1), keys, np.arange(rows + 1) * width, width)


def joined(batches: Sequence[Batch]) -> Batch:
    """Join consecutive batches into one. There must be at least one.

    The features are dense if all batches are, and have the most exact of their types. Labels are
    kept if each batch has them.
    """
    if len(batches) == 1:
        return batches[0]
    features: Numbers | SparseRows
    if any(isinstance(each.features, SparseRows) for each in batches):
        features = _stacked([each.sparse() for each in batches])
    else:
        features = np.concatenate([each.features for each in batches])
    labels = [each.labels for each in batches if each.labels is not None]
    return Batch(
        features,
        np.concatenate(labels) if len(labels) == len(batches) else None,
        _kept([(each.uid, len(each)) for each in batches]),
        _kept([(each.metadata, len(each)) for each in batches]),
        _kept([(each.configurations, len(each)) for each in batches]),
        next((each.configuration for each in batches if each.configuration is not None), None),
        batches[0].first,
        _kept([(each.queries, len(each)) for each in batches]),
    )


def _stacked(parts: Sequence[SparseRows]) -> SparseRows:
    ends = np.cumsum([0, *(len(each.values) for each in parts)])
    starts = [each.starts[1:] + end for each, end in zip(parts, ends[:-1], strict=True)]
    return SparseRows(
        np.concatenate([each.values for each in parts]),
        np.concatenate([each.keys for each in parts]),
        np.concatenate([np.zeros(1, np.int64), *starts]),
        max(each.width for each in parts),
    )


def _kept(parts: Sequence[tuple[Sequence[_Kept | None] | None, int]]) -> list[_Kept | None] | None:
    if all(each is None for each, _ in parts):
        return None
    return [one for each, count in parts for one in (each if each is not None else [None] * count)]


class BatchBuilder:
    """Builds a batch record by record, for records that differ in kind.

    Attributes:
        keys: the columns of these numbers; None for a dense record.
    """

    def __init__(self) -> None:
        self.values: list[Numbers] = []
        self.keys: list[NDArray[np.int64] | None] = []
        self._labels: list[Numbers | None] = []
        self._uid: list[str | None] = []
        self._metadata: list[str | None] = []
        self._configurations: list[Mapping[str, Any] | str | None] = []
        self._queries: list[int | None] = []

    def __len__(self) -> int:
        return len(self.values)

    def add(
        self,
        values: Numbers,
        keys: NDArray[np.int64] | None = None,
        *,
        labels: Numbers | None = None,
        uid: str | None = None,
        metadata: str | None = None,
        configuration: Mapping[str, Any] | str | None = None,
        query: int | None = None,
    ) -> None:
        """Add a record. The caller keeps widths and numbers of labels equal."""
        self.values.append(values)
        self.keys.append(keys)
        self._labels.append(labels)
        self._uid.append(uid)
        self._metadata.append(metadata)
        self._configurations.append(configuration)
        self._queries.append(query)

    def built(self, width: int, first: int) -> Batch:
        """Return the records as a batch; there must be at least one."""
        labels = [each for each in self._labels if each is not None]
        return Batch(
            self._features(width),
            np.stack(labels) if labels else None,
            _some(self._uid),
            _some(self._metadata),
            _some(self._configurations),
            None,
            first,
            _some(self._queries),
        )

    def _features(self, width: int) -> Numbers | SparseRows:
        if all(keys is None for keys in self.keys):
            return np.stack(self.values)
        all_keys = np.arange(width)
        starts = np.cumsum([0, *map(len, self.values)], dtype=np.int64)
        keys = [all_keys if each is None else each for each in self.keys]
        return SparseRows(np.concatenate(self.values), np.concatenate(keys), starts, width)


def _some(values: list[_Kept | None]) -> list[_Kept | None] | None:
    return None if all(each is None for each in values) else values


def is_finite(numbers: Numbers) -> bool:
    """Whether no number is NaN or infinite; integers and booleans never are."""
    if numbers.dtype.kind != "f":
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        # NaN or an infinity makes the sum NaN or infinite, and the sum is fast. The sum of large
        # finite numbers may be infinite too, so only then each number is checked.
        return bool(np.isfinite(_sum(numbers)) or np.isfinite(numbers).all())


def _sum(numbers: Numbers) -> Any:
    ones = _ONES.get(numbers.dtype)
    in_place = numbers.flags.c_contiguous and numbers.flags.aligned  # BLAS accepts no other layout
    if ones is None or not in_place or numbers.size < _QUARTERS * _RUN:
        return numbers.sum()
    flat = numbers.reshape(-1)
    whole = flat.size - flat.size % (_QUARTERS * _RUN)
    runs = flat[:whole].reshape(_QUARTERS, -1, _RUN).transpose(1, 0, 2)
    return (runs @ ones).sum() + flat[whole:].sum()
