"""``application/jsonlines``: one instance per line, dense and sparse ones in any order."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from partway.protocol.formats.batches import Batch, BatchBuilder
from partway.protocol.formats.column_order import ColumnOrder
from partway.protocol.formats.decoding import Tabular
from partway.protocol.formats.encoding import (
    RecordEncoder,
    check_finite,
    check_labels,
    check_queries,
)
from partway.protocol.formats.faults import Malformed
from partway.protocol.formats.instances import instances_lines, plain_rows, read_instance
from partway.protocol.formats.lines import LineDecoder
from partway.protocol.formats.number_text import MARK, lines_ended
from partway.protocol.json.strict import NotJson


class JsonLinesDecoder(LineDecoder):
    def __init__(self, wanted: Tabular) -> None:
        super().__init__(wanted)
        self._order = ColumnOrder(wanted.names)

    def _read(self, piece: bytes, line: int) -> Batch:
        # Line ends become marks: between two marks there is one value.
        marked = piece.replace(b"\n", MARK)
        lines = 1 + lines_ended(piece, marked)
        try:
            records = orjson.loads(b"[%b]" % marked)
        except orjson.JSONDecodeError:
            records = []
        if len(records) == 2 * lines - 1 and records[1::2] == [None] * (lines - 1):
            rows = plain_rows(records[::2], piece, self._order)
            if rows is not None and self._width in {None, rows.shape[1]}:
                self._check_width(rows.shape[1], self.records, line)
                return Batch(rows, first=self.records)
        return self._one_by_one(piece, line)

    def _one_by_one(self, piece: bytes, first: int) -> Batch:
        builder = BatchBuilder()
        for offset, text in enumerate(piece.split(b"\n")):
            record, line = self.records + offset, first + offset
            self._refuse_empty(text, record, line)
            try:
                # As at the end of a piece, so that a fault's column does not depend on the pieces.
                instance = read_instance(text.rstrip(b"\r"), self._width, self._order)
            except NotJson as error:
                place = "" if error.at is None else f" at column {error.at + 1}"
                raise Malformed(
                    f"the line is not JSON: {error.why}{place}", record=record, line=line
                ) from None
            except ValueError as error:
                raise Malformed(str(error), record=record, line=line) from None
            row = instance.row
            self._check_width(row.width, record, line)
            builder.add(
                row.values,
                row.keys,
                uid=instance.uid,
                metadata=instance.metadata,
                configuration=instance.configuration,
            )
        return builder.built(row.width, self.records)


class JsonLinesEncoder(RecordEncoder):
    def pieces(self, batch: Batch) -> Iterator[bytes]:
        check_labels(batch, 0, "application/jsonlines")
        check_queries(batch, "application/jsonlines")
        check_finite(batch)
        yield from instances_lines(batch)

    def finish(self) -> Iterator[bytes]:
        return iter(())
