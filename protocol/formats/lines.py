"""Bodies as pieces of whole lines: the base of formats with one record per line."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Final

from partway.protocol.formats.batches import Batch
from partway.protocol.formats.decoding import RecordDecoder, Tabular
from partway.protocol.formats.faults import Malformed, OverLimit
from partway.protocol.limits import MAX_RECORD_BYTES, MEDIA_PIECE

_BOM: Final = b"\xef\xbb\xbf"
_ENDS: Final = b"\r\n"


class LineDecoder(RecordDecoder):
    """Takes lines, a piece of the body at a time, so that a record is never split.

    A piece is so small that reading it in C holds the interpreter for a millisecond or two. Empty
    lines are only allowed at the end of a body.
    """

    def __init__(self, wanted: Tabular) -> None:
        super().__init__(wanted)
        self._tail = bytearray()
        self._begun = False
        self._lines = 0
        self._empty = 0

    @abstractmethod
    def _read(self, piece: bytes, line: int) -> Batch | None:
        """Read whole lines, the last one without its line end; ``line`` is the number of the first.

        Returns:
            Their records; None if the lines have none.
        """

    def feed(self, data: bytes) -> Iterator[Batch]:
        start = 0
        while start < len(data):
            stop = min(start + MEDIA_PIECE, len(data))
            cut = data.rfind(b"\n", start, stop) + 1
            if not cut:
                self._keep(data[start:stop])
                start = stop
                continue
            piece = bytes(self._tail) + data[start:cut] if self._tail else data[start:cut]
            self._tail.clear()
            start = cut
            yield from self._lines_of(piece)

    def finish(self) -> Iterator[Batch]:
        piece = bytes(self._tail)
        self._tail.clear()
        yield from self._lines_of(piece)
        self._check_some()

    def _refuse_empty(self, text: bytes, record: int, line: int) -> None:
        """Refuse a line without a record; readers call it for each line that they look at."""
        if not text.strip(_ENDS):
            raise Malformed("the line is empty; it must be a record", record=record, line=line)

    def _keep(self, data: bytes) -> None:
        self._tail += data
        if len(self._tail) > MAX_RECORD_BYTES:
            raise OverLimit(
                f"record {self.records} (line {self._lines + 1}) is longer than "
                f"{MAX_RECORD_BYTES} bytes: send a shorter one"
            )

    def _lines_of(self, piece: bytes) -> Iterator[Batch]:
        if not self._begun and piece:
            self._begun = True
            piece = piece.removeprefix(_BOM)
        lines = piece.rstrip(_ENDS)
        ends = piece[len(lines) :].count(b"\n")
        if not lines:
            self._empty += ends
            return
        if self._empty:
            self._refuse_empty(b"", self.records, self._lines + 1)
        first = self._lines + 1
        try:
            batch = self._read(lines, first)
        except Malformed as fault:
            good = 0 if fault.line is None else fault.line - first
            if good:  # the records before it are yielded first, as if the body were cut there
                batch = self._read(b"\n".join(lines.split(b"\n", good)[:good]), first)
                if batch is not None:
                    yield self._judged(batch)
            raise
        self._lines += 1 + lines.count(b"\n")
        # The first of these ends belongs to the last line.
        self._empty = max(ends - 1, 0)
        if batch is not None:
            yield self._judged(batch)
