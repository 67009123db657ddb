"""``KMeans``, the model class."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from partway.container.models.kmeans.centroids import load_centroids
from partway.container.models.kmeans.nearest import Nearest, gpu
from partway.container.tabular import Columns, Numbers, TabularModel
from partway.container.workers import Threads
from partway.protocol.formats import Batch, Tabular


class KMeans(TabularModel):
    """Finds the centroid nearest to each record, and its distance."""

    answers = Columns("closest_cluster", "distance_to_cluster")
    #: A second thread takes small batches, while the first one computes a large one.
    runs_on: ClassVar = Threads(count=2, queue=256)
    max_concurrent_transforms = 2

    def load(self, model_dir: Path) -> None:
        """Read the centroids.

        Raises:
            ArraysError: the directory has no centroids, or those in it cannot be used.
        """
        self._nearest = Nearest(load_centroids(model_dir), gpu())
        self.takes = Tabular(width=self._nearest.width, sparse=True)

    def predict(self, batch: Batch) -> tuple[Numbers, Numbers]:
        return self._nearest.find(batch)
