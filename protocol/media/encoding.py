"""What all encoders of records share."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from partway.protocol.media.batches import Batch, SparseRows

#: Rows that are written in one call of a library: a millisecond's work, that stays in a cache.
ROWS_AT_ONCE: Final = 256


class CannotWrite(ValueError):
    """Records that a format has no place for, or no words."""


class RecordEncoder(ABC):
    """Batches of one body, one after the other → its bytes; each takes one that has a record."""

    def encode(self, batch: Batch) -> bytes:
        """The bytes of these records.

        Raises:
            CannotWrite: the format has no place for something that the records have.
        """
        return put_together(self.pieces(batch))

    @abstractmethod
    def pieces(self, batch: Batch) -> Iterator[bytes]:
        """The same, a piece at a time."""

    @abstractmethod
    def finish(self) -> bytes:
        """What comes after the last record."""


def put_together(pieces: Iterable[bytes]) -> bytes:
    """Pieces as one; only one of them is there beside the whole, which grows where it is."""
    first = b""
    whole = io.BytesIO()
    for each in pieces:
        if not first:
            first = each  # mostly there is no other, and nothing to be copied
        else:
            if not whole.tell():
                whole.write(first)
            whole.write(each)
    return whole.getvalue() or first


def check_labels(batch: Batch, most: int, media_type: str) -> None:
    """See that records have no more labels than a format has places for.

    Raises:
        CannotWrite: they have more.
    """
    found = 0 if batch.labels is None else batch.labels.shape[1]
    if found > most:
        places = f"for {most}" if most else "for none"
        raise CannotWrite(f"the records have {found} labels; {media_type} has a place {places}")


def check_finite(batch: Batch) -> None:
    """See that numbers can be written as text.

    Raises:
        CannotWrite: a number is NaN or infinite.
    """
    features = batch.features
    numbers = features.values if isinstance(features, SparseRows) else features
    if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
        raise CannotWrite("a feature is NaN or infinite; to be written as text it must be finite")
