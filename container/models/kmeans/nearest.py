"""Nearest centroids, exact to the last bit or two, in bounded memory.

|x|² - 2xc + |c|² is a product of matrices, and by far the fastest way to all distances. It loses
digits where x and c are close to each other and far from zero. So it only chooses candidates, by a
proven error bound. The distances to the candidates are then computed from differences. Nearly
always there is one candidate. The answer for a record depends neither on other records nor on the
place of the computation.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from partway.container.errors import ModelError
from partway.container.models.kmeans.centroids import LARGEST
from partway.log_lines import LogLine
from partway.protocol.formats import Batch

#: Most numbers of a chunk of records, and most distances to centroids (or the distances of a single
#: record, if they are more). About six arrays of that many float64 exist at a time: 50 MiB.
NUMBERS_AT_ONCE: Final = 1 << 20

#: The limit on a GPU, which needs larger chunks to be busy: 400 MiB.
GPU_NUMBERS_AT_ONCE: Final = 1 << 23

#: Least multiplications for a computation on the GPU. One core does so many in about 10 ms. Sending
#: a chunk to the GPU and fetching the result takes about 1 ms.
GPU_FROM: Final = 1 << 27

_log = logging.getLogger("partway.container.kmeans")

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


class Backend(Protocol):
    """Computes products, in arrays of its own type."""

    at_once: int

    def place(self, array: NDArray[np.float64]) -> Any:
        """Copy an array to the device that computes products."""

    def smallest(self, array: Any) -> Any:
        """Return the smallest number of each row, as a column."""

    def pairs(self, mask: Any) -> Pairs:
        """Return rows and columns of the mask's true elements, in order, as numpy arrays."""


class OnCpu:
    at_once = NUMBERS_AT_ONCE

    def place(self, array: NDArray[np.float64]) -> Any:
        return array

    def smallest(self, array: Any) -> Any:
        return array.min(axis=1, keepdims=True)

    def pairs(self, mask: Any) -> Pairs:
        rows, columns = np.nonzero(mask)
        return rows, columns


class OnTorch:
    """Computes with torch, on a device.

    Args:
        device: the device, as torch names it.

    Raises:
        ImportError: torch is not installed.
    """

    at_once = GPU_NUMBERS_AT_ONCE

    def __init__(self, device: str = "cuda") -> None:
        self._torch: Any = importlib.import_module("torch")
        self._device = device

    def place(self, array: NDArray[np.float64]) -> Any:
        return self._torch.from_numpy(array).to(self._device)

    def smallest(self, array: Any) -> Any:
        return array.amin(dim=1, keepdim=True)

    def pairs(self, mask: Any) -> Pairs:
        rows, columns = mask.nonzero(as_tuple=True)
        return rows.cpu().numpy(), columns.cpu().numpy()


def gpu() -> Backend | None:
    """Return the GPU; None without one, or without a torch that can use it."""
    try:
        torch = importlib.import_module("torch")
        if not torch.cuda.is_available():
            return None
    except (ImportError, OSError, RuntimeError) as error:  # torch is missing, or does not fit
        _log.info(LogLine("computing on the CPU alone", reason=str(error)))
        return None
    _log.info(LogLine("large batches go to the GPU", device=torch.cuda.get_device_name()))
    return OnTorch()


class Nearest:
    """Finds nearest centroids; usable by several threads at a time.

    Args:
        centroids: one centroid per row, of finite numbers.
        large: the backend for large batches; None for the CPU.
        large_from: multiplications that make a batch large.
    """

    def __init__(
        self,
        centroids: NDArray[np.float64],
        large: Backend | None = None,
        large_from: int = GPU_FROM,
    ) -> None:
        self._centroids = centroids
        self._large_from = large_from
        #: Centred numbers lose fewer digits, and leave fewer candidates.
        self._middle = centroids.mean(axis=0)
        centred = centroids - self._middle
        self._small = _Candidates(centred, OnCpu())
        self._large: _Candidates | None = None
        if large is not None:
            try:
                self._large = _Candidates(centred, large)
            except RuntimeError as error:  # torch's error if others use the memory
                _log.warning(
                    LogLine("the GPU failed, computing on the CPU alone", reason=str(error))
                )

    @property
    def width(self) -> int:
        width: int = self._centroids.shape[1]
        return width

    def find(self, records: Batch) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Find the nearest centroid of each record; the first one if several are equally near.

        Returns:
            The centroids' numbers, and the Euclidean distances to them.

        Raises:
            ModelError: 400, a record has a number that is not finite, or too large.
        """
        if self._large is not None and len(records) * self._centroids.size >= self._large_from:
            try:
                return self._find(records, self._large)
            except RuntimeError as error:  # torch's error, mostly for lack of memory
                _log.warning(LogLine("the GPU failed, computing on the CPU", reason=str(error)))
        return self._find(records, self._small)

    def _find(
        self, records: Batch, candidates: _Candidates
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        found = np.empty(len(records), np.int64)
        distances = np.empty(len(records))
        step = max(1, candidates.backend.at_once // max(self._centroids.shape))
        for start in range(0, len(records), step):
            rows = records.dense(start, start + step)
            _check_size(rows, start)
            pairs = candidates.of(rows - self._middle)
            chunk = slice(start, start + len(rows))
            found[chunk], distances[chunk] = self._decide(rows, pairs)
        return found, distances

    def _decide(
        self, rows: NDArray[np.float64], pairs: Pairs
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Choose between each row's candidates; each row has at least one."""
        row, centroid = pairs
        squares = np.empty(len(row))
        step = max(1, NUMBERS_AT_ONCE // self.width)
        for start in range(0, len(row), step):
            some = slice(start, start + step)
            differences = rows[row[some]] - self._centroids[centroid[some]]
            squares[some] = np.square(differences, out=differences).sum(axis=1)
        smallest = np.minimum.reduceat(squares, np.searchsorted(row, np.arange(len(rows))))
        best = np.flatnonzero(squares == smallest[row])
        _, first = np.unique(row[best], return_index=True)  # in order of centroids
        return centroid[best[first]], np.sqrt(smallest)


def _check_size(rows: NDArray[np.float64], first: int) -> None:
    """Check that every distance is finite; ``first`` is the first row's number in its request."""
    fine = (np.abs(rows) <= LARGEST).all(axis=1)
    if not fine.all():
        raise ModelError(
            f"record {first + int(fine.argmin())}: a number is NaN, infinite or beyond "
            f"{LARGEST:g}; it must be finite and no larger",
            status=400,
        )


class _Candidates:
    """Chooses the centroids that may be nearest.

    Args:
        centroids: the centroids, centred.
    """

    def __init__(self, centroids: NDArray[np.float64], backend: Backend) -> None:
        self.backend = backend
        width = centroids.shape[1]
        self._transposed = backend.place(centroids).T
        self._norms = backend.place(np.square(centroids).sum(axis=1))
        #: Twice the largest difference between the two computations of a squared distance, as a
        #: share of |x|² + |c|². The sums of n terms are off by n·u, u = eps / 2, of the sum of the
        #: terms' sizes. |x||c| is at most half of |x|² + |c|². The other roundings are ten.
        self._slack = 4 * (width + 4) * float(np.finfo(np.float64).eps)

    def of(self, rows: NDArray[np.float64]) -> Pairs:
        """Return pairs of a row and a candidate, ordered by row, then by centroid.

        Args:
            rows: the records, centred.
        """
        there = self.backend.place(rows)
        norms = (there * there).sum(1)[:, None] + self._norms
        squares = norms - 2 * (there @ self._transposed)
        norms *= self._slack
        return self.backend.pairs(squares - norms <= self.backend.smallest(squares + norms))
