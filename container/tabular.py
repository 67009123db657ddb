"""Models of tables: arrays in, columns of numbers out, for every request format.

::

    class Iris(TabularModel):
        takes = Tabular(width=4)
        answers = Columns("score", "predicted_label")

        def load(self, model_dir: Path) -> None:
            self.weights = np.load(model_dir / "weights.npy")

        def predict(self, batch: Batch) -> tuple[Numbers, Numbers]:
            score = batch.dense() @ self.weights
            return score, score > 0
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from partway.container.errors import ModelError
from partway.container.limits import MAX_ANSWER_NUMBERS
from partway.container.record_model import RecordModel, told_to_the_client
from partway.protocol.formats import (
    AnswerColumns,
    Batch,
    SparseRows,
    Tabular,
    decode,
    encode_answers,
)

Numbers = NDArray[Any]


class Columns:
    """The answer of a model of tables: one or several named columns of numbers.

    Args:
        names: the name of each column, as sent to clients.
        key: the member of the JSON answer with one object for each record.

    Raises:
        ValueError: there is no name, or a repeated one.
    """

    def __init__(self, *names: str, key: str = "predictions") -> None:
        if not names or len(set(names)) != len(names):
            raise ValueError(f"the columns {names} were given; each must have a name of its own")
        self.names = names
        self.key = key


class TabularModel(RecordModel, ABC):
    """A model whose requests are rows of numbers; only :meth:`predict` must be written.

    It answers ``/invocations`` in each of :data:`~partway.protocol.formats.RECORD_TYPES`, by
    ``Accept``. It also answers streams, where each message is a body. :meth:`predict` only gets
    valid requests.
    Others are refused: a body of another type (415), an ``Accept`` that allows no answer (406), a
    broken body or records of the wrong form (400).

    Attributes:
        takes: the required form of records; ``load`` may set it from the model's file.
        answers: the columns that :meth:`predict` returns.
        configurable: whether :meth:`predict` uses the configuration of requests; if not, a request
            with a configuration is refused.
    """

    takes: Tabular = Tabular()
    answers: ClassVar[Columns]
    configurable: ClassVar[bool] = False

    @abstractmethod
    def predict(self, batch: Batch) -> Numbers | Sequence[Numbers]:
        """Answer the records of one body; on a worker.

        Args:
            batch: the records. Their features are float64 for every format: dense, or
                :class:`~partway.protocol.formats.SparseRows` where :attr:`takes` allows it and a
                record is sparse. The model may modify them.

        Returns:
            The columns of :attr:`answers` in order, or the only one: for each record a number, or a
            row of numbers. Numbers must be finite.

        Raises:
            ModelError: an error for the client, with a ``status`` of 400 for the client's fault.
        """

    def answer_body(self, body: bytes, content_type: str, media_type: str) -> bytes:
        """Answer a body; see :meth:`~.record_model.RecordModel.answer_body`.

        Raises:
            ValueError: the model's answer is not one number, or one row, for each record.
        """
        with told_to_the_client():
            batch = _as_float64(decode(body, content_type, self.takes))
        if not self.configurable:
            _check_nothing_configured(batch)
        columns = self._columns(self.predict(batch), len(batch))
        return encode_answers(
            AnswerColumns(columns, self.answers.key, batch.uid, batch.metadata), media_type
        )

    def _columns(self, predicted: Numbers | Sequence[Numbers], records: int) -> dict[str, Numbers]:
        given = (predicted,) if isinstance(predicted, np.ndarray) else tuple(predicted)
        names = self.answers.names
        if len(given) != len(names):
            raise ValueError(
                f"predict() returned {len(given)} columns; it must return {', '.join(names)}"
            )
        columns = {}
        for name, each in zip(names, given, strict=True):
            column = np.asarray(each)
            if column.ndim == 0 or len(column) != records:
                raise ValueError(
                    f"predict() returned a {name} of shape {column.shape}; it must have one for "
                    f"each of {records} records"
                )
            columns[name] = column.astype(np.int64) if column.dtype.kind == "b" else column
        check_answer_size(records, sum(each.size for each in columns.values()) // max(1, records))
        return columns


def check_answer_size(records: int, numbers: int) -> None:
    """Check the size of an answer; a model calls it before a computation that fills memory.

    Args:
        records: number of records.
        numbers: numbers in the answer for each record.

    Raises:
        ModelError: 413, there are more than :data:`~partway.container.limits.MAX_ANSWER_NUMBERS`.
    """
    if records * numbers > MAX_ANSWER_NUMBERS:
        raise ModelError(
            f"{records} records are answered with {numbers} numbers each, more than "
            f"{MAX_ANSWER_NUMBERS} in all: send at most {MAX_ANSWER_NUMBERS // numbers} records",
            status=413,
        )


def _as_float64(batch: Batch) -> Batch:
    """Convert records to float64, so that results do not depend on the format.

    Arrays that share the body's memory are copied, so that the model may write to them.
    """
    features = batch.features
    if isinstance(features, SparseRows):
        values = np.require(features.values, np.float64, "W")
        return replace(batch, features=replace(features, values=values))
    return replace(batch, features=np.require(features, np.float64, "W"))


def _check_nothing_configured(batch: Batch) -> None:
    place = "the body" if batch.configuration else None
    for number, each in enumerate(batch.configurations or ()):
        if each and place is None:
            place = f"record {number}"
    if place is not None:
        raise ModelError(
            f"{place}: configuration must be empty: the model has nothing to configure", status=400
        )
