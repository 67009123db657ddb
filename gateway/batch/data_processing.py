"""DataProcessing: filters the records that a container gets, and filters and joins the output.

The order is ``InputFilter``, the container, ``JoinSource`` with the record as it was before the
filter, ``OutputFilter``. Pure functions: bytes of a request in, bytes of an answer out.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Final

from partway.gateway.batch.answer_types import AnswerTypes, WholeAnswer
from partway.gateway.batch.json_paths import BadFilter, JsonPath
from partway.gateway.batch.options import OptionsError, TransformOptions
from partway.gateway.batch.record_forms import CSV, JSON_LINES, RecordForm, form_of
from partway.protocol.formats.faults import Malformed
from partway.protocol.records import RecordBatch, SplitType

_LINE_ENDS: Final = b"\r\n"


class DataProcessing:
    """Filters and joins the records of one job's files; implements :class:`Processing`.

    Records are lines. ``application/json`` without a split is one record. An empty line goes to the
    container as it is, and has no answer.

    Args:
        asked: the form of the records.
        joins: whether answers are joined with their records.
        split: how files are cut into records.
    """

    def __init__(
        self,
        asked: RecordForm,
        answers: AnswerTypes,
        input_filter: JsonPath,
        output_filter: JsonPath,
        *,
        joins: bool,
        split: SplitType,
    ) -> None:
        self._asked = asked
        self._answers = answers
        self._input_filter = input_filter
        self._output_filter = output_filter
        self._joins = joins
        self._split = split
        self._asked_lines = split == "Line" or asked.has_lines

    def asked(self, batch: RecordBatch) -> bytes:
        """Return the container's input; each line keeps its line ending.

        Raises:
            Malformed: a record does not have the declared type, or lacks an element that the filter
                names.
        """
        if self._input_filter.is_whole:
            return batch.data
        sent: list[bytes] = []
        for number, line in _records(batch.data, lines=self._asked_lines):
            text = line.rstrip(_LINE_ENDS)
            if text.strip():
                try:
                    self._input_filter.check_size(len(text))
                    text = self._asked.written(self._input_filter.selected(self._asked.read(text)))
                except ValueError as error:
                    raise self._fault(batch, number, error) from None
            sent += text, line[len(line.rstrip(_LINE_ENDS)) :]
        return b"".join(sent)

    def answered(self, batch: RecordBatch, answer: WholeAnswer) -> bytes:
        """Return the output for a container's answer.

        Returns:
            A line for each record, with its line ending; without one where the answer is one JSON
            text.

        Raises:
            Malformed: an answer does not match its type or the job's type, lacks an element that
                the filter names, or has the wrong number of records.
        """
        if not self._joins and self._output_filter.is_whole:
            return answer.body
        try:
            form, has_header = self._answers.format(answer)
        except ValueError as error:
            raise Malformed(f"{batch.place(self._split)}: {error}") from None
        asked = [
            (number, line)
            for number, line in _records(batch.data, lines=self._asked_lines)
            if line.strip()
        ]
        # The answer to one record may be JSON of several lines.
        is_one = self._joins and len(asked) == 1 and form is not CSV
        lines = not is_one if self._joins else form.has_lines
        answers = [line for _, line in _records(answer.body, lines=lines) if line.strip()]
        if has_header:
            del answers[:1]
        if len(answers) == len(asked):
            numbers = [number for number, _ in asked]
        elif not self._joins:
            numbers = [0] * len(answers)
        else:
            raise Malformed(
                f"{batch.place(self._split)}: the container has answered {len(answers)} lines for "
                f"{len(asked)} records; for a join it must answer one line for each record"
            )
        end = b"\n" if (self._asked_lines if self._joins else lines) else b""
        put_out = []
        for place, (number, one) in enumerate(zip(numbers, answers, strict=True)):
            try:
                self._output_filter.check_size(
                    len(one) + (len(asked[place][1]) if self._joins else 0)
                )
                value = _read_answer(form, one.rstrip(_LINE_ENDS))
                if self._joins:
                    record = self._asked.read(asked[place][1].rstrip(_LINE_ENDS))
                    value = self._asked.joined(record, value)
                put_out.append(form.written(self._output_filter.selected(value)) + end)
            except ValueError as error:
                raise self._fault(batch, number, error) from None
        return b"".join(put_out)

    def _fault(self, batch: RecordBatch, number: int, error: ValueError) -> Malformed:
        """Return the error that names the faulty record of the file.

        Args:
            number: the index of the record in the batch, from 0.
        """
        record = batch.first + number
        line = record + 1 if self._asked_lines else None
        return Malformed(str(error), record=record, line=line)


def processing_of(
    options: TransformOptions, *, slices_include_end: bool = False
) -> DataProcessing | None:
    """Return the processing of a job's records; None if the job asks for none.

    Args:
        slices_include_end: whether ``[0:2]`` of a filter includes element 2.

    Raises:
        OptionsError: the processing is not possible; the error names the member.
    """
    input_filter = _path("InputFilter", options.input_filter, slices_include_end)
    output_filter = _path("OutputFilter", options.output_filter, slices_include_end)
    joins = options.join_source == "Input"
    if input_filter.is_whole and output_filter.is_whole and not joins:
        return None
    if options.split_type not in ("None", "Line"):
        raise OptionsError(
            "SplitType",
            f"{options.split_type} was given; it must be Line or None, because records that "
            "are filtered or joined are lines",
        )
    accept = options.accept or options.content_type
    asked, answered = form_of(options.content_type), form_of(accept)
    if not input_filter.is_whole or joins:
        _check_form("ContentType", options.content_type, asked, input_filter, "InputFilter")
    member = "Accept" if options.accept else "ContentType"
    if not output_filter.is_whole or joins:
        _check_form(member, accept, answered, output_filter, "OutputFilter")
    if joins and (asked is CSV) != (answered is CSV):
        raise OptionsError(
            "JoinSource",
            f"records of {options.content_type} cannot be joined with answers of {accept}; "
            "either both ContentType and Accept must be text/csv, or neither of them",
        )
    return DataProcessing(
        asked or JSON_LINES,  # where no filter or join reads the records
        AnswerTypes(member, accept, answered or JSON_LINES),
        input_filter,
        output_filter,
        joins=joins,
        split=options.split_type,
    )


def _path(member: str, text: str, slices_include_end: bool) -> JsonPath:
    try:
        return JsonPath.of(text, slices_include_end=slices_include_end)
    except BadFilter as error:
        raise OptionsError(member, str(error)) from None


def _check_form(
    type_member: str, given: str, form: RecordForm | None, path: JsonPath, path_member: str
) -> None:
    if form is None:
        raise OptionsError(
            type_member,
            f"{repr(given) + ' was given' if given else 'nothing was given'}; it must be "
            "text/csv, application/json or application/jsonlines if the job filters or joins "
            "records",
        )
    try:
        form.check(path)
    except ValueError as error:
        raise OptionsError(path_member, str(error)) from None


def _read_answer(form: RecordForm, answer: bytes) -> object:
    try:
        return form.read(answer)
    except ValueError as error:
        raise ValueError(f"the container's answer to it: {error}") from None


def _records(data: bytes, *, lines: bool) -> Iterator[tuple[int, bytes]]:
    """Yield the records of a request or an answer, each with its number and its line ending."""
    if lines:
        yield from enumerate(BytesIO(data))  # splits at LF alone
    else:
        yield 0, data
