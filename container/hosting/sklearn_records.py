"""Records for scikit-learn models: rows whose columns may hold numbers, strings or both."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from partway.protocol.errors import quoted
from partway.protocol.formats.decoding import Tabular
from partway.protocol.formats.faults import Malformed, OverLimit, UnsupportedMedia
from partway.protocol.formats.formats import decode, decoder_for, format_of
from partway.protocol.formats.instances import KINDS
from partway.protocol.formats.json_table import JsonTable, NotATable, table_of
from partway.protocol.formats.negotiation import media_type
from partway.protocol.formats.number_text import number
from partway.protocol.json.strict import NotJson, parsed
from partway.protocol.limits import MAX_JSON_TABLE_BYTES, MAX_RECORDS

CSV: Final = "text/csv"
JSON: Final = "application/json"
JSON_LINES: Final = "application/jsonlines"

#: Most digits of a number that stays a whole number: all of 64 bits.
_WHOLE: Final = 18
_HEADER: Final = {"present": True, "absent": False}


@dataclass(frozen=True, slots=True)
class SklearnRecords:
    """The records of a body.

    Attributes:
        rows: a list of values for each record, all of one length; NaN for a missing value. An array
            if the format only has numbers.
    """

    rows: list[list[Any]] | NDArray[Any]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def are_texts(self) -> bool:
        """Whether each record is one string."""
        return all(len(row) == 1 and isinstance(row[0], str) for row in self.rows)

    def place_of(self, complaint: str) -> str | None:
        """Return the first value of the kind that scikit-learn complains about without a place."""
        if "could not convert string to float" in complaint:
            return self._first(
                lambda cell: isinstance(cell, str) and repr(cell) in complaint, "such"
            )
        if "contains NaN" in complaint:
            return self._first(
                lambda cell: not isinstance(cell, str) and math.isnan(cell), "missing"
            )
        if "contains infinity" in complaint:
            return self._first(
                lambda cell: not isinstance(cell, str) and math.isinf(cell), "infinite"
            )
        return None

    def _first(self, is_meant: Callable[[Any], bool], kind: str) -> str | None:
        for record, row in enumerate(self.rows):
            for place, cell in enumerate(row):
                if is_meant(cell):
                    return f"the first {kind} value: record {record}, features[{place}]"
        return None

    def array(self) -> NDArray[Any]:
        """Return the records as (records, width): of float64, or of objects if one is a string."""
        if isinstance(self.rows, np.ndarray):
            return self.rows
        mixed = any(isinstance(cell, str) for row in self.rows for cell in row)
        return np.array(self.rows, object if mixed else np.float64)


def check_readable(content_type: str) -> None:
    """Check that a format is supported for records.

    Raises:
        UnsupportedMedia: the format is not supported.
    """
    decoder_for(content_type, Tabular(sparse=True))
    _header_of(content_type)


def read_records(
    body: bytes, content_type: str, names: Sequence[str] | None, width: int | None
) -> SklearnRecords:
    """Read a body.

    Args:
        body: the whole body.
        content_type: its type; ``header=present`` or ``header=absent`` says whether CSV has names
            in its first line (RFC 4180 §3). Otherwise it is guessed from the lines.
        names: the model's columns in their order; None if it has none.
        width: required number of values of a record; None if unknown.

    Raises:
        MediaFault: the body cannot be read, or its records have the wrong form.
    """
    name = format_of(content_type).name
    if name not in {CSV, JSON, JSON_LINES}:
        wanted = Tabular(width=width, finite=False, said_by="as the model was fitted")
        return SklearnRecords(decode(body, content_type, wanted).dense())
    if name != CSV and len(body) > MAX_JSON_TABLE_BYTES:
        raise OverLimit(f"the body is longer than {MAX_JSON_TABLE_BYTES} bytes: send a shorter one")
    try:
        if name == CSV:
            table = _csv_table(_text(body), _header_of(content_type), names, width)
        else:
            value = parsed(body, _number) if name == JSON else {"instances": _lines(body)}
            table = table_of(value, names, width)
    except NotJson as error:
        at = "" if error.at is None else f" at character {error.at}"
        raise Malformed(f"the body is not JSON: {error.why}{at}") from None
    except NotATable as fault:
        raise Malformed(str(fault), record=fault.record) from None
    return SklearnRecords(_checked(table, width))


def _checked(table: JsonTable, width: int | None) -> list[list[Any]]:
    """Check that rows have the model's length, or that of the first row."""
    rows = table.rows
    if len(rows) > MAX_RECORDS:
        raise OverLimit(f"there are more than {MAX_RECORDS} records: send fewer")
    wanted, whose = (
        (len(rows[0]), "as record 0 has")
        if width is None
        else (
            width,
            "as the model was fitted",
        )
    )
    for record, row in enumerate(rows):
        if len(row) != wanted:
            raise Malformed(
                f"the record has {len(row)} features; it must have {wanted}, {whose}", record=record
            )
        for place, cell in enumerate(row):
            if isinstance(cell, list | dict):
                raise Malformed(
                    f"features[{place}] is {KINDS[type(cell)]}; it must be a number, a string, a "
                    "boolean or null",
                    record=record,
                )
    return [[math.nan if cell is None else cell for cell in row] for row in rows]


# --- JSON ----------------------------------------------------------------------------------------


def _lines(body: bytes) -> list[object]:
    values = []
    for number_of_line, line in enumerate(body.splitlines(), 1):
        if not line.strip():
            continue
        try:
            values.append(parsed(line, _number))
        except NotJson as error:
            at = "" if error.at is None else f" at column {error.at + 1}"
            raise Malformed(
                f"the line is not JSON: {error.why}{at}", record=len(values), line=number_of_line
            ) from None
    return values


def _number(text: str) -> float:
    is_whole = len(text) <= _WHOLE and text.lstrip("-").isdecimal()
    return int(text) if is_whole else float(text)


# --- CSV -----------------------------------------------------------------------------------------


def _header_of(content_type: str) -> bool | None:
    """Return whether a CSV type declares a header (RFC 4180 §3); None without a declaration."""
    said = media_type(content_type).parameters.get("header")
    if said is None:
        return None
    if said.lower() not in _HEADER:
        raise UnsupportedMedia(
            f"header={quoted(said)} was given; it must be present or absent (RFC 4180 §3)"
        )
    return _HEADER[said.lower()]


def _csv_table(
    text: str, header: bool | None, names: Sequence[str] | None, width: int | None
) -> JsonTable:
    try:
        lines = [line for line in csv.reader(io.StringIO(text), strict=True) if line]
    except csv.Error as error:
        raise Malformed(f"the body is not CSV: {error}") from None
    if header is None:
        header = _shows_header(lines, names)
    first, *rest = lines if header and lines else [[], *lines]
    for record, row in enumerate(rest):
        if len(row) != len(rest[0]):
            raise Malformed(
                f"the record has {len(row)} features; it must have {len(rest[0])}, as record 0 has",
                record=record,
            )
    columns = [_column(cells) for cells in zip(*rest, strict=True)]
    rows = [list(row) for row in zip(*columns, strict=True)]
    if not header:
        return table_of({"instances": rows}, names, width)
    return table_of({"columns": [name.strip() for name in first], "data": rows}, names, width)


def _shows_header(lines: list[list[str]], names: Sequence[str] | None) -> bool:
    """Whether the first line has names: the model's, or no numbers above lines with numbers."""
    if not lines:
        return False
    if names is not None and {cell.strip() for cell in lines[0]} == set(names):
        return True
    below = next(islice(lines, 1, None), [])
    return not any(map(_is_number, lines[0])) and any(map(_is_number, below))


def _is_number(cell: str) -> bool:
    return number(cell.strip().encode()) is not None


def _column(cells: Sequence[str]) -> list[Any]:
    """Convert a column: to numbers if all cells are, else to strings; None for an empty cell."""
    texts = [cell.strip() for cell in cells]
    numbers = [number(text.encode()) if text else None for text in texts]
    if any(text and found is None for text, found in zip(texts, numbers, strict=True)):
        return [text or None for text in texts]
    return list(numbers)


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Malformed(f"the body is not UTF-8 at byte {error.start}") from None
