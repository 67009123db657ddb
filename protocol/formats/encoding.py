"""The base of all record encoders: batches → bytes, and checks of what a format can hold."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final, TypeAlias

import numpy as np

from partway.protocol.formats.batches import Batch, Numbers, SparseRows, is_finite

#: Bytes for a receiver of any buffer, such as a file's ``writelines``; a view consists of single
#: bytes.
Piece: TypeAlias = bytes | memoryview

#: Rows written in one call of a library: a millisecond's work, which fits into a CPU cache.
ROWS_AT_ONCE: Final = 256

_MUST_BE_FINITE: Final = "is NaN or infinite; to be written as text it must be finite"


class CannotWrite(ValueError):
    """Records that a format cannot express.

    Args:
        record: the number of the record at fault, from 0; None if all are.
    """

    def __init__(self, reason: str, *, record: int | None = None) -> None:
        super().__init__(reason if record is None else f"record {record}: {reason}")
        self.record = record


class NoPlaceForLabels(CannotWrite):
    """Records with more labels than the format has places for."""


class NoPlaceBeside(CannotWrite):
    """Records with members beside their numbers, in a format for numbers only."""


class WidthChanged(CannotWrite):
    """Records of another width than earlier ones, in a format with one width for all."""


class RecordEncoder(ABC):
    """Encodes the batches of one body; each batch must have a record."""

    #: Whether all records of a body are as wide as its first one.
    one_width: ClassVar[bool] = True
    _width: int | None = None

    def encode(self, batch: Batch) -> bytes:
        """Encode the records of a batch.

        Raises:
            CannotWrite: the format has no place for a member of the records.
            WidthChanged: their width differs from that of earlier records.
        """
        if self._width is None:
            self._width = batch.width
        if self.one_width and batch.width != self._width:
            raise WidthChanged(
                f"the record has {batch.width} features; it must have {self._width}, as record 0 "
                "has",
                record=batch.first,
            )
        return put_together(self.pieces(batch))

    @abstractmethod
    def pieces(self, batch: Batch) -> Iterator[bytes]:
        """Encode the records of a batch, a piece at a time."""

    @abstractmethod
    def finish(self) -> Iterator[Piece]:
        """Yield the bytes after the last record, a piece at a time.

        A piece may be the memory of a batch's array: write it before the array changes.
        """


def put_together(pieces: Iterable[Piece]) -> bytes:
    """Join pieces; at any time only one of them exists beside the growing result."""
    first: Piece = b""
    whole = io.BytesIO()
    for each in pieces:
        if not first:
            first = each  # usually there is only one, and nothing is copied
        else:
            if not whole.tell():
                whole.write(first)
            whole.write(each)
    return whole.getvalue() or bytes(first)


def check_labels(batch: Batch, most: int, media_type: str) -> None:
    """Raise CannotWrite if records have more labels than the format has places for."""
    found = 0 if batch.labels is None else batch.labels.shape[1]
    if found > most:
        places = f"only {most}" if most else "none"
        raise NoPlaceForLabels(f"the records have {found} labels; {media_type} can hold {places}")


def check_beside(batch: Batch, media_type: str) -> None:
    """Raise CannotWrite if a record has a uid, metadata or a configuration beside its numbers."""
    beside = {
        "a uid": batch.uid,
        "metadata": batch.metadata,
        "a configuration": batch.configurations,
    }
    for what, values in beside.items():
        for row, value in enumerate(values or ()):
            if value is not None:
                raise NoPlaceBeside(
                    f"the record has {what}; {media_type} has no place for that",
                    record=batch.first + row,
                )


def check_queries(batch: Batch, media_type: str) -> None:
    """Raise CannotWrite if a record has a query number: only ``text/libsvm`` has a place for it."""
    for row, query in enumerate(batch.queries or ()):
        if query is not None:
            raise NoPlaceBeside(
                f"the record has a query's number (qid); {media_type} has no place for that",
                record=batch.first + row,
            )


def check_finite(batch: Batch) -> None:
    """Raise CannotWrite if a number is NaN or infinite: it has no form in text."""
    features = batch.features
    place = _not_finite(features.values if isinstance(features, SparseRows) else features)
    if place is not None:
        row, column = batch.place_of(place)
        raise CannotWrite(f"feature {column} {_MUST_BE_FINITE}", record=batch.first + row)
    place = None if batch.labels is None else _not_finite(batch.labels)
    if place is not None and batch.labels is not None:
        row, column = divmod(place, batch.labels.shape[1])
        raise CannotWrite(f"label {column} {_MUST_BE_FINITE}", record=batch.first + row)


def _not_finite(numbers: Numbers) -> int | None:
    """Return the place of the first number, counted row by row, that is NaN or infinite."""
    return None if is_finite(numbers) else int(np.isfinite(numbers).argmin())
