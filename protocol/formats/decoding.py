"""The base of all record decoders: bytes → batches, and the required form of records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from partway.protocol.formats.batches import Batch, BatchBuilder, Numbers, SparseRows, is_finite
from partway.protocol.formats.faults import Malformed, OverLimit
from partway.protocol.limits import MAX_DENSE_NUMBERS, MAX_RECORDS, MAX_WIDTH

_MUST_BE_FINITE: Final = "is NaN or infinite; it must be a finite number"


@dataclass(frozen=True, slots=True)
class Tabular:
    """The required form of records that are rows of numbers.

    Attributes:
        width: features that each record must have; None for the width of the first record.
        sparse: whether batches may be sparse; otherwise sparse records are filled with zeros.
        finite: whether NaN and infinite numbers are refused.
        index_base: the number of the first feature in ``text/libsvm``: 0 or 1.
        max_records: most records of a body; None for no limit; the caller then must not keep them
            all.
        said_by: the source of the width, for fault messages.
        names: names of the features, in order; clients may then send columns by these names. None
            if the model does not name them: then the first record sets the order.
    """

    width: int | None = None
    sparse: bool = False
    finite: bool = True
    index_base: int = 0
    max_records: int | None = MAX_RECORDS
    said_by: str = "as the model requires"
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.names is not None:
            self._check_names(self.names)
        if self.width is not None and not 1 <= self.width <= MAX_WIDTH:
            raise ValueError(f"width: {self.width} was given; it must be from 1 to {MAX_WIDTH}")
        if self.index_base not in {0, 1}:
            raise ValueError(f"index_base: {self.index_base} was given; it must be 0 or 1")

    def _check_names(self, names: tuple[str, ...]) -> None:
        if len(set(names)) != len(names):
            raise ValueError(f"names: {names} was given; each feature must have a different name")
        if self.width is None:
            object.__setattr__(self, "width", len(names))
        elif self.width != len(names):
            raise ValueError(
                f"names: {len(names)} were given; there must be {self.width}, one for each feature"
            )


class RecordDecoder(ABC):
    """Decodes the bytes of one body, as they come, into batches of whole records.

    :meth:`feed` and :meth:`finish` are generators of batches; the caller must exhaust them. The
    decoder holds only the fed bytes, one record and one batch. After a fault it must not be used
    again.

    Attributes:
        configuration: the configuration beside the records, once it has been read.
    """

    def __init__(self, wanted: Tabular) -> None:
        self.wanted = wanted
        self.records = 0
        self.configuration: Mapping[str, Any] | None = None
        self._width = wanted.width
        self._filled = 0

    @abstractmethod
    def feed(self, data: bytes) -> Iterator[Batch]:
        """Take the next bytes, any number of them; yield the records that they complete.

        Raises:
            Malformed: the bytes do not have the declared type, or a record has the wrong form.
            OverLimit: a record is too long, or there are too many.
        """

    @abstractmethod
    def finish(self) -> Iterator[Batch]:
        """Note that all bytes have come; yield the remaining records.

        Raises:
            Malformed: the body is incomplete or has no record, or as for :meth:`feed`.
        """

    def _check_width(self, found: int, record: int, line: int | None = None) -> None:
        """Check a record's width; the first record sets it if nothing else does.

        ``line`` counts from 1, in formats that have lines.
        """
        if self._width is None:
            if not 1 <= found <= MAX_WIDTH:
                raise Malformed(
                    f"the record has {found} features; it must have 1 to {MAX_WIDTH}",
                    record=record,
                    line=line,
                )
            self._width = found
        elif found != self._width:
            raise Malformed(
                f"the record has {found} features; it must have {self._width}, {self.whose_width}",
                record=record,
                line=line,
            )

    @property
    def whose_width(self) -> str:
        return "as record 0 has" if self.wanted.width is None else self.wanted.said_by

    def _built(self, builder: BatchBuilder) -> Iterator[Batch]:
        if builder:
            assert self._width is not None, "the first record's was checked"
            yield self._judged(builder.built(self._width, self.records))

    def _judged(self, batch: Batch) -> Batch:
        """Count a batch's records, and check its numbers."""
        most = self.wanted.max_records
        if most is not None and self.records + len(batch) > most:
            raise OverLimit(f"there are more than {most} records: send fewer")
        self.records += len(batch)
        features = batch.features
        numbers = features.values if isinstance(features, SparseRows) else features
        labels = batch.labels
        if self.wanted.finite and not (
            is_finite(numbers) and (labels is None or is_finite(labels))
        ):
            self._refuse_infinite(batch)
        if not self.wanted.sparse and isinstance(features, SparseRows):
            self._filled += len(batch) * features.width
            if self._filled > MAX_DENSE_NUMBERS:
                raise OverLimit(
                    "with their zeros, the sparse records have more than "
                    f"{MAX_DENSE_NUMBERS} numbers: send fewer records"
                )
            return replace(batch, features=features.dense())
        return batch

    def _check_finite(
        self,
        values: Numbers,
        keys: NDArray[np.int64] | None,
        record: int,
        line: int | None = None,
        *,
        labels: Numbers | None,
    ) -> None:
        if not self.wanted.finite:
            return
        if not is_finite(values):
            place = int(np.isfinite(values).argmin())
            what = f"feature {place if keys is None else keys[place]}"
        elif labels is not None and not is_finite(labels):
            what = f"label {int(np.isfinite(labels).argmin())}"
        else:
            return
        raise Malformed(f"{what} {_MUST_BE_FINITE}", record=record, line=line)

    def _refuse_infinite(self, batch: Batch) -> None:
        for row in range(len(batch)):
            number = batch.first + row
            labels = None if batch.labels is None else batch.labels[row]
            if isinstance(batch.features, SparseRows):
                one = batch.features.rows(row, row + 1)
                self._check_finite(one.values, one.keys, number, labels=labels)
            else:
                self._check_finite(batch.features[row], None, number, labels=labels)

    def _check_some(self) -> None:
        if not self.records:
            raise Malformed("the body has no record")
