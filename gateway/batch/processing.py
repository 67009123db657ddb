"""What stands between a file's records and the container, and between that and the output."""

from __future__ import annotations

from typing import Protocol

from partway.gateway.batch.answer_types import WholeAnswer
from partway.protocol.records import RecordBatch


class Processing(Protocol):
    """Filters and joins records (``DataProcessing``).

    Called on threads, of several batches at a time, and of the same one again where its request is
    sent again. What is wrong with a record is said by :class:`~partway.protocol.formats.Malformed`,
    with the record's number in its file: the file fails then, and no other.
    """

    def asked(self, batch: RecordBatch) -> bytes:
        """The body that the container gets in place of a batch.

        Raises:
            Malformed: a record is none of its type, or has not what the filter names.
        """

    def answered(self, batch: RecordBatch, answer: WholeAnswer) -> bytes:
        """What is put out, made of a batch and the container's whole answer to it.

        Raises:
            Malformed: the answer is not what its type says, or of a type that the job does not
                expect, or has fewer records than were asked.
        """
