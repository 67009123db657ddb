"""What all encoders of records share."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final, TypeAlias

import numpy as np

from partway.protocol.formats.batches import Batch, Numbers, SparseRows, is_finite

#: Bytes on their way to what takes any buffer, as a file's ``writelines`` does; a view has single
#: bytes.
Piece: TypeAlias = bytes | memoryview

#: Rows that are written in one call of a library: a millisecond's work, that stays in a cache.
ROWS_AT_ONCE: Final = 256

_MUST_BE_FINITE: Final = "is NaN or infinite; to be written as text it must be finite"


class CannotWrite(ValueError):
    """Records that a format has no place for, or no words.

    Args:
        reason: what the records have that cannot be written.
        record: the number of the record that is to blame, from 0; None where all are.

    Attributes:
        record: the same.
    """

    def __init__(self, reason: str, *, record: int | None = None) -> None:
        super().__init__(reason if record is None else f"record {record}: {reason}")
        self.record = record


class NoPlaceForLabels(CannotWrite):
    """Records with labels, in a format that has no place for so many."""


class NoPlaceBeside(CannotWrite):
    """Records with something beside their numbers, in a format that has numbers alone."""


class WidthChanged(CannotWrite):
    """Records that are not as wide as those before them in a format whose records all are."""


class RecordEncoder(ABC):
    """Batches of one body, one after the other → its bytes; each takes one that has a record."""

    #: Whether all records of a body are as wide as its first one.
    one_width: ClassVar[bool] = True
    _width: int | None = None

    def encode(self, batch: Batch) -> bytes:
        """The bytes of these records.

        Raises:
            CannotWrite: the format has no place for something that the records have.
            WidthChanged: they are not as wide as those before.
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
        """The same, a piece at a time."""

    @abstractmethod
    def finish(self) -> Iterator[Piece]:
        """What comes after the last record, a piece at a time.

        A piece may be the memory of a batch's array: write it before that changes.
        """


def put_together(pieces: Iterable[Piece]) -> bytes:
    """Pieces as one; only one of them is there beside the whole, which grows where it is."""
    first: Piece = b""
    whole = io.BytesIO()
    for each in pieces:
        if not first:
            first = each  # mostly there is no other, and nothing to be copied
        else:
            if not whole.tell():
                whole.write(first)
            whole.write(each)
    return whole.getvalue() or bytes(first)


def check_labels(batch: Batch, most: int, media_type: str) -> None:
    """See that records have no more labels than a format has places for.

    Raises:
        CannotWrite: they have more.
    """
    found = 0 if batch.labels is None else batch.labels.shape[1]
    if found > most:
        places = f"for {most}" if most else "for none"
        raise NoPlaceForLabels(
            f"the records have {found} labels; {media_type} has a place {places}"
        )


def check_beside(batch: Batch, media_type: str) -> None:
    """See that records have nothing but numbers, where a format has no place for anything else.

    Raises:
        CannotWrite: one has a uid, metadata or a configuration.
    """
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
    """See that no record has the number of a query: ``text/libsvm`` alone has a place for it.

    Raises:
        CannotWrite: one has.
    """
    for row, query in enumerate(batch.queries or ()):
        if query is not None:
            raise NoPlaceBeside(
                f"the record has a query's number (qid); {media_type} has no place for that",
                record=batch.first + row,
            )


def check_finite(batch: Batch) -> None:
    """See that numbers can be written as text.

    Raises:
        CannotWrite: a number is NaN or infinite.
    """
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
    """Where the first number is, counted row by row, that is NaN or infinite."""
    return None if is_finite(numbers) else int(np.isfinite(numbers).argmin())
