"""``text/csv``: one record per line, no header; the first ``label_size`` columns are labels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from partway.protocol.formats.batches import Batch
from partway.protocol.formats.decoding import Tabular
from partway.protocol.formats.encoding import (
    ROWS_AT_ONCE,
    RecordEncoder,
    check_beside,
    check_finite,
    check_queries,
)
from partway.protocol.formats.faults import Malformed
from partway.protocol.formats.lines import LineDecoder
from partway.protocol.formats.number_text import comma_separated, json_rows, number, number_lines


class CsvDecoder(LineDecoder):
    """Reads lines of numbers between commas, quoted or not (RFC 4180 §2).

    Args:
        label_size: number of label columns before the features.
    """

    def __init__(self, wanted: Tabular, label_size: int = 0) -> None:
        super().__init__(wanted)
        self._label_size = label_size

    def _read(self, piece: bytes, line: int) -> Batch:
        numbers = number_lines(piece)
        if numbers is None or not self._is_fitting(numbers.shape[1]):
            numbers = self._one_by_one(piece.split(b"\n"), line)
        size = self._label_size
        self._check_width(numbers.shape[1] - size, self.records, line)
        labels = numbers[:, :size] if size else None
        return Batch(numbers[:, size:], labels, first=self.records)

    def _is_fitting(self, columns: int) -> bool:
        features = columns - self._label_size
        return features == self._width if self._width is not None else features > 0

    def _one_by_one(self, lines: list[bytes], first: int) -> NDArray[np.float64]:
        """Read unusual lines one by one, or find the line with a fault."""
        rows = []
        size = self._label_size
        for offset, each in enumerate(lines):
            record, line = self.records + offset, first + offset
            self._refuse_empty(each, record, line)
            # Counted before splitting, so that a long line does not hold the interpreter for long.
            self._check_columns(each.count(b",") + 1, record, line)
            row = comma_separated(each)
            if row is None:
                row = self._cells(each.split(b","), record, line)
                self._check_finite(row[size:], None, record, line, labels=row[:size])
            rows.append(row)
        return np.stack(rows)

    def _check_columns(self, columns: int, record: int, line: int) -> None:
        size = self._label_size
        if self._width is None and columns > size:
            self._check_width(columns - size, record, line)
        if columns - size != self._width:
            must = "more" if self._width is None else f"{self._width + size}"
            what = (
                ", one for each feature" if not size else f": {size} for labels, then the features"
            )
            raise Malformed(
                f"the line has {columns} columns; it must have {must}{what}",
                record=record,
                line=line,
            )

    def _cells(self, cells: list[bytes], record: int, line: int) -> NDArray[np.float64]:
        row = np.empty(len(cells))
        for column, cell in enumerate(cells):
            text = cell.strip()
            if len(text) > 1 and text[:1] == text[-1:] == b'"':
                text = text[1:-1]
            value = number(text)
            if value is None:
                raise Malformed(
                    f"column {column + 1} is not a number; the body must have only numbers, and no "
                    "header line",
                    record=record,
                    line=line,
                )
            row[column] = value
        return row


class CsvEncoder(RecordEncoder):
    """Writes labels, if there are any, then features; sparse records are filled with zeros."""

    def pieces(self, batch: Batch) -> Iterator[bytes]:
        check_beside(batch, "text/csv")
        check_queries(batch, "text/csv")
        check_finite(batch)
        for start in range(0, len(batch), ROWS_AT_ONCE):
            rows = batch.dense(start, start + ROWS_AT_ONCE)
            if batch.labels is not None:
                labels = batch.labels[start : start + ROWS_AT_ONCE]
                rows = np.concatenate([labels, rows], axis=1)
            yield b"\n".join([*json_rows(rows), b""])

    def finish(self) -> Iterator[bytes]:
        return iter(())
