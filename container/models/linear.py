"""The model ``linear``: the class of a record and its probability, by logistic regression."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from partway.container.models.arrays import ArraysError, ArrayShape, load_archive
from partway.container.tabular import Columns, Numbers, TabularModel, check_answer_size
from partway.container.workers import Threads
from partway.protocol.formats import Batch, Tabular

#: The file, in the model directory.
LINEAR_FILE: Final = "linear.npz"

#: Largest absolute value of a weight. Multiplied by a record's largest number and summed over a
#: million features, it is still far below the limit of float64.
LARGEST_WEIGHT: Final = 1e140

_HINT: Final = (
    f"write it with numpy.savez('{LINEAR_FILE}', weights=weights, bias=bias); weights has one row "
    "for each class, or one row for two classes"
)
_WANTED: Final = {
    "weights": ArrayShape(("classes", "features"), "row", LARGEST_WEIGHT, _HINT),
    "bias": ArrayShape(("classes",), "number", LARGEST_WEIGHT, _HINT),
}


class Linear(TabularModel):
    """Classifies: one row of weights and the logistic function, or a row per class and softmax."""

    answers = Columns("score", "predicted_label")
    runs_on: ClassVar = Threads(count=2, queue=256)
    max_concurrent_transforms = 2

    def load(self, model_dir: Path) -> None:
        """Read weights and bias.

        Raises:
            ArraysError: the file is missing, or its arrays cannot be used.
        """
        arrays = load_archive(model_dir / LINEAR_FILE, _WANTED)
        self._weights, self._bias = arrays["weights"], arrays["bias"]
        if len(self._weights) != len(self._bias):
            raise ArraysError(
                f"{model_dir / LINEAR_FILE} has {len(self._weights)} rows of weights and "
                f"{len(self._bias)} numbers of bias; both numbers must be equal: {_HINT}"
            )
        self.takes = Tabular(width=self._weights.shape[1])

    def predict(self, batch: Batch) -> tuple[Numbers, Numbers]:
        """Return the probability of class 1 or of each class, and the likeliest class, from 0."""
        check_answer_size(len(batch), len(self._weights) + 1)
        # A margin beyond float64 becomes infinite, which means certainty. If two such numbers meet,
        # the result is NaN, and the runtime reports that.
        with np.errstate(over="ignore", invalid="ignore"):
            margins = batch.dense() @ self._weights.T + self._bias
            if len(self._weights) == 1:
                score = _logistic(margins[:, 0])
                return score, score > 0.5
            score = _softmax(margins)
        return score, score.argmax(axis=1)


def _logistic(margins: Numbers) -> Numbers:
    # The exponent is never positive, so nothing overflows.
    small = np.exp(-np.abs(margins))
    sure: Numbers = np.where(margins >= 0, 1, small) / (1 + small)
    return sure


def _softmax(margins: Numbers) -> Numbers:
    shares = np.exp(margins - margins.max(axis=1, keepdims=True))
    scores: Numbers = shares / shares.sum(axis=1, keepdims=True)
    return scores
