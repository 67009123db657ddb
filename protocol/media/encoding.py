"""What all encoders of records share."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
        return b"".join(self.pieces(batch))

    @abstractmethod
    def pieces(self, batch: Batch) -> list[bytes]:
        """The same, not yet put together."""

    @abstractmethod
    def finish(self) -> bytes:
        """What comes after the last record."""


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
