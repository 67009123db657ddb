"""The nearest centroid of each record: exact to the last bit or two, in bounded memory.

|x|² - 2xc + |c|² is a product of matrices, and by far the fastest way to all distances. It loses
digits where x and c are close to each other and far from zero. So it only chooses candidates, by an
error bound that is proven; the distances to those are then computed from differences. Nearly always
there is one candidate. What is answered for a record depends neither on the records around it nor
on where the product was computed.
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

#: Numbers that a chunk of records may have, and distances to all centroids (or one record's, where
#: they are more). About six arrays of that many float64 exist at a time: 50 MiB.
NUMBERS_AT_ONCE: Final = 1 << 20

#: The same on a GPU, which a larger chunk keeps busy: 400 MiB there.
GPU_NUMBERS_AT_ONCE: Final = 1 << 23

#: Multiplications from which a request is computed on the GPU. One core does so many in about
#: 10 ms; sending a chunk there and asking for the outcome takes about one.
GPU_FROM: Final = 1 << 27

_log = logging.getLogger("partway.container.kmeans")

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


class Backend(Protocol):
    """Where products are computed, in arrays of its own."""

    at_once: int

    def place(self, array: NDArray[np.float64]) -> Any:
        """Bring an array to where products are computed."""

    def smallest(self, array: Any) -> Any:
        """The smallest number of each row, as a column."""

    def pairs(self, mask: Any) -> Pairs:
        """Rows and columns of the mask's true elements, in order, as arrays of numpy."""


class OnCpu:
    """Computes with numpy, on the CPU."""

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
    """The GPU, where there is one and a torch that can use it."""
    try:
        torch = importlib.import_module("torch")
        if not torch.cuda.is_available():
            return None
    except (ImportError, OSError, RuntimeError) as error:  # not installed, or not for this machine
        _log.info(LogLine("computing on the CPU alone", reason=str(error)))
        return None
    _log.info(LogLine("large batches go to the GPU", device=torch.cuda.get_device_name()))
    return OnTorch()


class Nearest:
    """Finds centroids, for any number of threads at a time.

    Args:
        centroids: one centroid a row, of finite numbers.
        large: where large batches are computed; None for the CPU.
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
        #: Near zero fewer digits are lost, and fewer candidates are left.
        self._middle = centroids.mean(axis=0)
        centred = centroids - self._middle
        self._small = _Candidates(centred, OnCpu())
        self._large: _Candidates | None = None
        if large is not None:
            try:
                self._large = _Candidates(centred, large)
            except RuntimeError as error:  # as torch has it: others have its memory
                _log.warning(
                    LogLine("the GPU failed, computing on the CPU alone", reason=str(error))
                )

    @property
    def width(self) -> int:
        """How many features a centroid has."""
        width: int = self._centroids.shape[1]
        return width

    def find(self, records: Batch) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The nearest centroid of each record, the first one of equally near ones.

        Returns:
            The centroids' numbers, and the Euclidean distances to them.

        Raises:
            ModelError: 400, a record's number is not finite, or too large.
        """
        if self._large is not None and len(records) * self._centroids.size >= self._large_from:
            try:
                return self._find(records, self._large)
            except RuntimeError as error:  # as torch has it: mostly no memory left
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
        """Choose between each row's candidates, of which there must be at least one."""
        row, centroid = pairs
        squares = np.empty(len(row))
        step = max(1, NUMBERS_AT_ONCE // self.width)
        for start in range(0, len(row), step):
            some = slice(start, start + step)
            differences = rows[row[some]] - self._centroids[centroid[some]]
            squares[some] = np.square(differences, out=differences).sum(axis=1)
        smallest = np.minimum.reduceat(squares, np.searchsorted(row, np.arange(len(rows))))
        best = np.flatnonzero(squares == smallest[row])
        _, first = np.unique(row[best], return_index=True)  # centroids are in order in each row
        return centroid[best[first]], np.sqrt(smallest)


def _check_size(rows: NDArray[np.float64], first: int) -> None:
    """See that every distance is finite; ``first`` is the first row's number in its request."""
    fine = (np.abs(rows) <= LARGEST).all(axis=1)
    if not fine.all():
        raise ModelError(
            f"record {first + int(fine.argmin())}: a number is NaN, infinite or beyond "
            f"{LARGEST:g}; it must be finite and at most that",
            status=400,
        )


class _Candidates:
    """Says which centroids may be nearest.

    Args:
        centroids: the centroids, centred.
        backend: where products are computed.
    """

    def __init__(self, centroids: NDArray[np.float64], backend: Backend) -> None:
        self.backend = backend
        width = centroids.shape[1]
        self._transposed = backend.place(centroids).T
        self._norms = backend.place(np.square(centroids).sum(axis=1))
        #: Twice the most that this square of a distance and the one from differences may differ,
        #: as a share of |x|² + |c|². The sums of n terms are off by n·u, u = eps / 2, of the sum of
        #: the terms' sizes; |x||c| is at most half of |x|² + |c|²; the other roundings are ten.
        self._slack = 4 * (width + 4) * float(np.finfo(np.float64).eps)

    def of(self, rows: NDArray[np.float64]) -> Pairs:
        """Pairs of a row and one of its candidates, in the order of the rows, then centroids.

        Args:
            rows: the records, centred.
        """
        there = self.backend.place(rows)
        norms = (there * there).sum(1)[:, None] + self._norms
        squares = norms - 2 * (there @ self._transposed)
        norms *= self._slack
        return self.backend.pairs(squares - norms <= self.backend.smallest(squares + norms))
