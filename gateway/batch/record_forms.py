"""The formats of records that are filtered and joined: CSV, JSON, JSON Lines."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from partway.gateway.batch.json_paths import JsonPath
from partway.protocol.formats.negotiation import media_type
from partway.protocol.json.strict import NotJson, parsed

#: The rest of a quoted column, up to its closing quote; two quotes are an escaped one.
_QUOTED: Final = re.compile(rb'"(?:[^"]|"")*"(?=,|\Z)')

#: The members for the answer of a joined record, and for a record that is no object (AWS's guide).
OUTPUT: Final = "SageMakerOutput"

INPUT: Final = "SageMakerInput"


def columns_of(line: bytes) -> list[bytes]:
    """Return the columns of a line; quoted columns keep their quotes.

    Args:
        line: a line without its line ending.

    Raises:
        ValueError: a quoted column has no closing quote at its end.
    """
    if b'"' not in line:
        return line.split(b",")
    columns: list[bytes] = []
    at = 0
    while True:
        end = line.find(b",", at)
        if line[at : at + 1] == b'"':
            quoted = _QUOTED.match(line, at)
            if quoted is None:
                raise ValueError(
                    f"the quote that begins column {len(columns) + 1} does not end at the end "
                    "of the column; a quote inside a quoted column must be written as two "
                    "quotes"
                )
            end = quoted.end() if quoted.end() < len(line) else -1
        if end < 0:
            columns.append(line[at:])
            return columns
        columns.append(line[at:end])
        at = end + 1


def line_of(columns: Iterable[bytes]) -> bytes:
    """Return the line of columns, without a line ending."""
    return b",".join(columns)


class RecordForm(ABC):
    """A format of records.

    Attributes:
        has_lines: whether a record is always a line; otherwise an unsplit file is one record.
    """

    def __init__(self, *, has_lines: bool) -> None:
        self.has_lines = has_lines

    @abstractmethod
    def read(self, record: bytes) -> Any:
        """Parse a record to a value that paths select from.

        Args:
            record: a record without its line ending.

        Raises:
            ValueError: the record does not have the declared type.
        """

    @abstractmethod
    def written(self, value: Any) -> bytes:
        """Return a value as a record, without a line ending.

        Raises:
            ValueError: the value cannot be a record.
        """

    @abstractmethod
    def joined(self, record: Any, answer: Any) -> Any:
        """Join a record and its answer to one value; raise ValueError if they cannot be joined."""

    @abstractmethod
    def check(self, path: JsonPath) -> None:
        """Refuse a filter that can select nothing from any record.

        Raises:
            ValueError: the filter selects nothing; the message says what it must select.
        """


class _Csv(RecordForm):
    """CSV: a row is an array of columns, and each column keeps its bytes, quotes included.

    A joined row has the record's columns, then the answer's.
    """

    def read(self, record: bytes) -> list[bytes]:
        return columns_of(record)

    def written(self, value: Any) -> bytes:
        columns = value if isinstance(value, list) else [value]
        if not columns:
            raise ValueError("the filter selects no column; it must select at least one")
        return line_of(columns)

    def joined(self, record: Any, answer: Any) -> list[bytes]:
        return [*record, *answer]

    def check(self, path: JsonPath) -> None:
        names = any(isinstance(each, str) for segment in path.segments for each in segment)
        if names or len(path.segments) > 1:
            raise ValueError(
                f"{path.text!r} was given; for text/csv it must select columns by numbers, "
                "such as $[0,2:]"
            )


class _Json(RecordForm):
    """JSON: numbers keep the digits that they were written with.

    A joined object gains the member SageMakerOutput. Any other value becomes SageMakerInput beside
    it.
    """

    def read(self, record: bytes) -> Any:
        try:
            return parsed(record, _as_written)
        except NotJson as error:
            at = "" if error.at is None else f" at character {error.at + 1}"
            raise ValueError(f"it is not JSON{at}: {error.why}") from None

    def written(self, value: Any) -> bytes:
        try:
            return orjson.dumps(value)
        except orjson.JSONEncodeError as error:
            raise ValueError(f"it cannot be written as JSON in UTF-8: {error}") from None

    def joined(self, record: Any, answer: Any) -> Mapping[str, Any]:
        if not isinstance(record, dict):
            return {INPUT: record, OUTPUT: answer}
        if OUTPUT in record:
            raise ValueError(
                f"the record already has a member {OUTPUT!r}, which the join adds for the answer; "
                "rename the record's member"
            )
        return {**record, OUTPUT: answer}

    def check(self, path: JsonPath) -> None:
        """Accept any path: it may select something."""


def _as_written(number: str) -> orjson.Fragment:
    return orjson.Fragment(number)


CSV: Final[RecordForm] = _Csv(has_lines=True)
JSON: Final[RecordForm] = _Json(has_lines=False)
JSON_LINES: Final[RecordForm] = _Json(has_lines=True)

_FORMS: Final[Mapping[str, RecordForm]] = {
    "text/csv": CSV,
    "application/json": JSON,
    "application/jsonlines": JSON_LINES,
    "application/jsons": JSON_LINES,
    "application/x-jsonlines": JSON_LINES,
    "application/x-ndjson": JSON_LINES,
}


def form_of(content_type: str) -> RecordForm | None:
    """Return the format of a media type; None if its records cannot be filtered or joined.

    A type that ends in ``+json`` is JSON too (RFC 6839 §3.1).
    """
    name = media_type(content_type).name
    return JSON if name.endswith("+json") else _FORMS.get(name)
