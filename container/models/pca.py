"""The model ``pca``: coordinates of records along principal components."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from partway.container.models.arrays import ArraysError, ArrayShape, load_archive
from partway.container.tabular import Columns, Numbers, TabularModel, check_answer_size
from partway.container.workers import Threads
from partway.protocol.formats import Batch, Tabular

#: The file, in the model directory.
PCA_FILE: Final = "pca.npz"

#: Largest absolute value of a number in the file.
LARGEST_COMPONENT: Final = 1e140

_HINT: Final = (
    f"write it with numpy.savez('{PCA_FILE}', components=components, mean=mean); components has "
    "one row for each component"
)
_WANTED: Final = {
    "components": ArrayShape(("components", "features"), "component", LARGEST_COMPONENT, _HINT),
    "mean": ArrayShape(("features",), "number", LARGEST_COMPONENT, _HINT),
}


class PCA(TabularModel):
    """Projects records: subtracts the mean, and measures the rest along each component."""

    answers = Columns("projection", key="projections")
    runs_on: ClassVar = Threads(count=2, queue=256)
    max_concurrent_transforms = 2

    def load(self, model_dir: Path) -> None:
        """Read components and mean.

        Raises:
            ArraysError: the file is missing, or its arrays cannot be used.
        """
        arrays = load_archive(model_dir / PCA_FILE, _WANTED)
        self._components, self._mean = arrays["components"], arrays["mean"]
        width = self._components.shape[1]
        if len(self._mean) != width:
            raise ArraysError(
                f"{model_dir / PCA_FILE} has components of {width} features and a mean of "
                f"{len(self._mean)}; both numbers must be equal: {_HINT}"
            )
        self.takes = Tabular(width=width)

    def predict(self, batch: Batch) -> Numbers:
        """Return each record's coordinates, one for each component."""
        check_answer_size(len(batch), len(self._components))
        # A number beyond float64 becomes infinite, and the runtime refuses it as an answer.
        with np.errstate(over="ignore", invalid="ignore"):
            projection: Numbers = (batch.dense() - self._mean) @ self._components.T
        return projection
