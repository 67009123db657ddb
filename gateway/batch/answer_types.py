"""The format of a container's answers, from the answer's ``Content-Type`` and the job's."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from partway.gateway.batch.record_forms import CSV, RecordForm, form_of
from partway.protocol.formats.negotiation import MediaType, media_type
from partway.protocol.records import RecordBatch

#: Characters of a type that a message repeats.
_SHOWN: Final = 128

#: Names of UTF-8, and of its subset ASCII.
_UTF8: Final = frozenset({"", "utf-8", "utf8", "us-ascii", "ascii"})

#: First characters of JSON arrays and objects.
_JSON_BEGINS: Final = (b"{", b"[")


class WholeAnswer(NamedTuple):
    """A container's whole 2xx answer, with its content coding undone.

    Attributes:
        content_type: its ``Content-Type``; empty if it has none.
    """

    body: bytes
    content_type: str = ""


class AnswerFormat(NamedTuple):
    """The format of one answer.

    Attributes:
        records: the form of the answer's records.
        has_header: whether its first line names columns (RFC 4180 §3).
    """

    records: RecordForm
    has_header: bool = False


class AnswerTypes:
    """Finds the format of each answer of a job.

    Args:
        member: the job's member that names the type of answers: Accept, or ContentType.
        expected: its value.
        form: the form of that type.
    """

    def __init__(self, member: str, expected: str, form: RecordForm) -> None:
        self._member = member
        self._expected = media_type(expected)
        self._form = form

    def format(self, answer: WholeAnswer) -> AnswerFormat:
        """Return the format of an answer.

        An answer without a type has the type that the job expects.

        Raises:
            ValueError: the answer's type is not supported; or one of answer and job is CSV and the
                other JSON; or the text is not UTF-8.
        """
        given = answer.content_type
        if not given.strip():
            if self._form is CSV and answer.body.lstrip().startswith(_JSON_BEGINS):
                raise ValueError(
                    "the container's answer looks like JSON but has no Content-Type; send a "
                    f"Content-Type with it, or answer with {self._expected.name}"
                )
            return AnswerFormat(self._form)
        media, shown = media_type(given), repr(given[:_SHOWN])
        form = form_of(given)
        if form is None:
            raise ValueError(
                f"the container's answer has the Content-Type {shown}; an answer that is "
                "filtered or joined must be text/csv, application/json or application/jsonlines"
            )
        if (form is CSV) != (self._form is CSV):
            raise ValueError(
                f"the container's answer has the Content-Type {shown}; it must be "
                f"{self._expected.name}, as the job's {self._member} says"
            )
        self._check_charset(media, form, shown)
        header = media.parameters.get("header", "")
        return AnswerFormat(form, form is CSV and header.lower() == "present")

    def _check_charset(self, media: MediaType, form: RecordForm, shown: str) -> None:
        """Refuse a charset other than UTF-8; CSV may also have the charset of the records."""
        charset = _charset(media)
        if charset in _UTF8 or (form is CSV and charset == _charset(self._expected)):
            return
        raise ValueError(
            f"the container's answer has the Content-Type {shown}; its charset must be utf-8"
        )


def _charset(media: MediaType) -> str:
    return media.parameters.get("charset", "").strip().lower()


class Processing(Protocol):
    """Filters and joins records (``DataProcessing``).

    Methods run on threads, for several batches at a time. A batch is processed again if its request
    is sent again. :class:`~partway.protocol.formats.Malformed` reports a fault in a record, with
    the record's number in its file. Only that file fails then.
    """

    def asked(self, batch: RecordBatch) -> bytes:
        """Return the body that the container gets for a batch.

        Raises:
            Malformed: a record does not have the declared type, or lacks an element that the filter
                names.
        """

    def answered(self, batch: RecordBatch, answer: WholeAnswer) -> bytes:
        """Return the output for a batch, from the container's whole answer.

        Raises:
            Malformed: the answer does not match its type, its type is not the one that the job
                expects, or it has fewer records than the batch.
        """
