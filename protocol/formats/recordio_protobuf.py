"""``application/x-recordio-protobuf``: protobuf records in RecordIO frames, or one bare record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from partway.protocol.formats.batches import Batch, BatchBuilder, Numbers, SparseRows
from partway.protocol.formats.decoding import RecordDecoder, Tabular
from partway.protocol.formats.encoding import RecordEncoder, check_queries
from partway.protocol.formats.faults import Malformed, OverLimit
from partway.protocol.formats.recordio import MAGIC, RecordIOReader, Run, framed, head_of
from partway.protocol.formats.records import (
    RecordLayout,
    layout_of,
    read_record,
    tensor_dtype,
    written_records,
)
from partway.protocol.limits import MAX_RECORD_BYTES


class RecordIODecoder(RecordDecoder):
    """Reads frames; a body that does not begin with a frame's magic is one bare record.

    Records that differ only in their numbers are read all at once.
    """

    def __init__(self, wanted: Tabular) -> None:
        super().__init__(wanted)
        self._frames = RecordIOReader()
        self._beginning = bytearray()
        self._is_framed: bool | None = None
        self._layout: RecordLayout | None = None
        self._layouts: dict[tuple[np.dtype[Any], np.dtype[Any]], RecordLayout | None] = {}
        self._labels: int | None = None

    def feed(self, data: bytes) -> Iterator[Batch]:
        if not self._is_framed:
            self._beginning += data
            if self._is_framed is None and len(self._beginning) >= len(MAGIC):
                self._is_framed = self._beginning.startswith(MAGIC)
            if not self._is_framed:
                if len(self._beginning) > MAX_RECORD_BYTES:
                    raise OverLimit(
                        f"record 0 is longer than {MAX_RECORD_BYTES} bytes: send a shorter one"
                    )
                return
            data = bytes(self._beginning)
            self._beginning.clear()
        for run in self._frames.feed(data):
            yield from self._records(run)

    def finish(self) -> Iterator[Batch]:
        if self._is_framed:
            self._frames.finish()
        elif self._beginning:
            yield from self._records(np.frombuffer(bytes(self._beginning), np.uint8)[None])
        self._check_some()

    def _records(self, run: Run) -> Iterator[Batch]:
        """Read records of one length: those of one layout at once, the others one by one."""
        done, alone = 0, 1
        builder = BatchBuilder()
        while done < len(run):
            alike = 0 if self._layout is None else self._layout.fitting(run[done:])
            if self._layout is not None and alike:
                yield from self._built(builder)
                builder = BatchBuilder()
                features, labels = self._layout.numbers(run[done : done + alike])
                yield self._judged(Batch(features, labels, first=self.records))
                done += alike
                alone = 1
                continue
            for payload in run[done : done + alone]:
                self._add(payload.tobytes(), builder)
            done += alone
            alone *= 2  # records may keep differing, so the comparison is not repeated for each
        yield from self._built(builder)

    def _add(self, payload: bytes, builder: BatchBuilder) -> None:
        number = self.records + len(builder)
        try:
            record = read_record(payload, self._width)
        except ValueError as error:
            raise Malformed(str(error), record=number) from None
        row = record.row
        self._check_width(row.width, number)
        self._check_labels(record.labels, number)
        self._check_finite(row.values, row.keys, number, labels=record.labels)
        if row.keys is None:
            self._learn(payload, row.values, record.labels)
        builder.add(
            row.values,
            row.keys,
            labels=record.labels,
            uid=record.uid,
            metadata=record.metadata,
            configuration=record.configuration,
        )

    def _check_labels(self, labels: Numbers | None, record: int) -> None:
        found = 0 if labels is None else len(labels)
        if self._labels is None:
            self._labels = found
        if found != self._labels:
            raise Malformed(
                f"the record has {found} labels; it must have {self._labels}, as record 0 has",
                record=record,
            )

    def _learn(self, payload: bytes, values: Numbers, labels: Numbers | None) -> None:
        """Check whether records of this kind can be read at once."""
        if labels is None:
            labels = np.empty(0, np.float32)
        kind = (values.dtype, labels.dtype)
        if kind not in self._layouts:
            self._layouts[kind] = layout_of(len(values), kind[0], len(labels), kind[1])
        layout = self._layouts[kind]
        if layout is not None and layout.fitting(np.frombuffer(payload, np.uint8)[None]):
            self._layout = layout


class RecordIOEncoder(RecordEncoder):
    """Writes records in whole frames; records of one layout are written at once."""

    def pieces(self, batch: Batch) -> Iterator[bytes]:
        check_queries(batch, "application/x-recordio-protobuf")
        layout = self._layout(batch)
        if layout is None or isinstance(batch.features, SparseRows):
            yield from map(framed, written_records(batch))
            return
        payloads = layout.payloads(batch.features, batch.labels)
        length = payloads.shape[1]
        frames = np.zeros((len(batch), 8 + length + -length % 4), np.uint8)
        frames[:, :8] = np.frombuffer(head_of(length), np.uint8)
        frames[:, 8 : 8 + length] = payloads
        yield frames.tobytes()

    def finish(self) -> Iterator[bytes]:
        return iter(())

    def _layout(self, batch: Batch) -> RecordLayout | None:
        if batch.uid or batch.metadata or batch.configurations or not len(batch):
            return None
        labels, label_dtype = 0, np.dtype(np.float32)
        if batch.labels is not None:
            labels, label_dtype = batch.labels.shape[1], tensor_dtype(batch.labels.dtype)
        return layout_of(batch.width, tensor_dtype(batch.features.dtype), labels, label_dtype)
