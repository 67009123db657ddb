"""How a container's answer is written, by its own ``Content-Type`` and by the job's."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from partway.gateway.batch.record_forms import CSV, RecordForm, form_of
from partway.protocol.formats.negotiation import MediaType, media_type
from partway.protocol.records import RecordBatch

#: Characters of a type that a message repeats.
_SHOWN: Final = 128

#: Names of UTF-8, and of ASCII, which is a part of it.
_UTF8: Final = frozenset({"", "utf-8", "utf8", "us-ascii", "ascii"})

#: How JSON's arrays and objects begin.
_JSON_BEGINS: Final = (b"{", b"[")


class WholeAnswer(NamedTuple):
    """A container's whole answer of 2xx, without its content coding.

    Attributes:
        body: its bytes.
        content_type: its ``Content-Type``; empty if it has none.
    """

    body: bytes
    content_type: str = ""


class AnswerFormat(NamedTuple):
    """How one answer is written.

    Attributes:
        records: the form of its records.
        has_header: whether its first line names columns (RFC 4180 §3).
    """

    records: RecordForm
    has_header: bool = False


class AnswerTypes:
    """Says how each answer of a job is written.

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
        """How an answer is written.

        An answer without a type has the one that the job expects.

        Raises:
            ValueError: the answer's type is not read here, or is CSV where the job expects JSON, or
                the other way round; or its text is not in UTF-8.
        """
        given = answer.content_type
        if not given.strip():
            if self._form is CSV and answer.body.lstrip().startswith(_JSON_BEGINS):
                raise ValueError(
                    "the container's answer has no Content-Type, and begins as JSON does; it must "
                    f"have one, or be {self._expected.name}"
                )
            return AnswerFormat(self._form)
        media, shown = media_type(given), repr(given[:_SHOWN])
        form = form_of(given)
        if form is None:
            raise ValueError(
                f"the container's answer has the Content-Type {shown}; to be filtered or joined it "
                "must be text/csv, application/json or application/jsonlines"
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
        """Columns of CSV keep their bytes: they may be in the charset of the job's own records."""
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
