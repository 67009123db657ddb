"""``text/libsvm``: one record ``<label> qid:<query> <index>:<value> …`` per line.

Either all lines have a label or none. The query number is optional; ranking models are trained with
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from partway.protocol.formats.batches import Batch, BatchBuilder, SparseRows
from partway.protocol.formats.decoding import Tabular
from partway.protocol.formats.encoding import (
    RecordEncoder,
    check_beside,
    check_finite,
    check_labels,
)
from partway.protocol.formats.faults import Malformed, UnsupportedMedia
from partway.protocol.formats.lines import LineDecoder
from partway.protocol.formats.number_text import comma_separated, json_text, number
from partway.protocol.limits import MAX_WIDTH

#: The prefix of the number of the query that a record answers (SVMrank, XGBoost, scikit-learn).
_QUERY: Final = b"qid:"
#: Most digits of a query number: all of 64 bits.
_MOST_DIGITS: Final = 18

_TO_COMMAS: Final = bytes.maketrans(b" :\n", b",,,")
_NOT_SEPARATORS: Final = bytes(set(range(256)) - set(b" :\n"))


class LibsvmDecoder(LineDecoder):
    """Reads sparse lines. Without a declared width, the largest index of a record sets it.

    Args:
        wanted: the required form of the records; it must have a width if they must be dense.

    Raises:
        UnsupportedMedia: dense records of unknown width are required, which this format cannot
            provide.
    """

    def __init__(self, wanted: Tabular) -> None:
        super().__init__(wanted)
        if wanted.width is None and not wanted.sparse:
            raise UnsupportedMedia(
                "neither text/libsvm nor the model states the number of features; send the records "
                "in another format"
            )
        self._has_labels: bool | None = None
        self._most = MAX_WIDTH if wanted.width is None else wanted.width

    def _read(self, piece: bytes, line: int) -> Batch | None:
        batch = self._at_once(piece)
        return self._one_by_one(piece, line) if batch is None else batch

    # --- As programs write it --------------------------------------------------------------------

    def _at_once(self, piece: bytes) -> Batch | None:
        """Read lines with single spaces and rising indices; None for any other lines."""
        piece = piece.replace(b"\r\n", b"\n").replace(b" \n", b"\n").removesuffix(b" ")
        if b"\t" in piece or b"\r" in piece:  # JSON would accept these around any number
            return None
        first = piece[: piece.find(b" ")]
        has_labels = b":" not in first if self._has_labels is None else self._has_labels
        if not has_labels:  # a label of our own, so that all lines are alike
            piece = b"0 " + piece.replace(b"\n", b"\n0 ")
        separators = piece.translate(None, _NOT_SEPARATORS)
        if separators.replace(b" :", b"").strip(b"\n") or b"," in piece:
            return None
        counts = np.array([*map(len, separators.split(b"\n"))], np.int64) // 2
        flat = comma_separated(piece.translate(_TO_COMMAS))
        if flat is None or len(flat) != len(counts) + 2 * counts.sum():
            return None
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        firsts = 2 * starts[:-1] + np.arange(len(counts))
        pairs = np.delete(flat, firsts).reshape(-1, 2)
        keys = self._rising_keys(pairs[:, 0], starts)
        if keys is None:
            return None
        self._has_labels = has_labels
        values = np.ascontiguousarray(pairs[:, 1])
        rows = SparseRows(values, keys, starts, self._wide_enough(keys))
        labels = flat[firsts].reshape(-1, 1) if has_labels else None
        return Batch(rows, labels, first=self.records)

    def _rising_keys(
        self, indices: NDArray[np.float64], starts: NDArray[np.int64]
    ) -> NDArray[np.int64] | None:
        """Return columns from 0 on; None if they are not integers, or do not rise in a line."""
        columns = indices - self.wanted.index_base
        if not ((columns >= 0) & (columns < self._most) & (columns == np.floor(columns))).all():
            return None
        keys = columns.astype(np.int64)
        rises = np.diff(keys) > 0
        firsts = starts[1:-1]
        rises[firsts[(firsts > 0) & (firsts < len(keys))] - 1] = True
        return keys if rises.all() else None

    # --- As it may be ----------------------------------------------------------------------------

    def _one_by_one(self, piece: bytes, first: int) -> Batch | None:
        builder = BatchBuilder()
        for offset, text in enumerate(piece.split(b"\n")):
            record, line = self.records + len(builder), first + offset
            if text.lstrip().startswith(b"#"):
                continue
            self._refuse_empty(text, record, line)
            try:
                label, query, keys, values = self._line(text)
            except ValueError as error:
                raise Malformed(str(error), record=record, line=line) from None
            labels = None if label is None else np.array([label])
            self._check_finite(values, keys, record, line, labels=labels)
            builder.add(values, keys, labels=labels, query=query)
        if not builder:
            return None
        all_keys = np.concatenate([each for each in builder.keys if each is not None])
        return builder.built(self._wide_enough(all_keys), self.records)

    def _line(
        self, text: bytes
    ) -> tuple[float | None, int | None, NDArray[np.int64], NDArray[np.float64]]:
        words = text.partition(b"#")[0].split()
        label = None
        if words and b":" not in words[0]:
            label = number(words.pop(0))
            if label is None:
                raise ValueError("the label is not a number")
        if self._has_labels is None:
            self._has_labels = label is not None
        if self._has_labels != (label is not None):
            raise ValueError(
                "either all lines must have a label or none; only one of this line and the first "
                "line has one"
            )
        query = None
        if words and words[0].startswith(_QUERY):
            query = _query(words.pop(0))
        pairs = np.empty((len(words), 2))
        for place, word in enumerate(words):
            if word.startswith(_QUERY):
                raise ValueError(
                    f"pair {place + 1} is a query's number (qid); it must appear once, before all "
                    "pairs"
                )
            index, colon, value = word.partition(b":")
            key, found = number(index), number(value)
            if not colon or key is None or found is None:
                raise ValueError(f"pair {place + 1} is not <index>:<value>, two numbers")
            pairs[place] = key, found
        keys = self._checked_indices(pairs[:, 0])
        return label, query, keys, np.ascontiguousarray(pairs[:, 1])

    def _checked_indices(self, indices: NDArray[np.float64]) -> NDArray[np.int64]:
        base = self.wanted.index_base
        columns = indices - base
        good = (columns >= 0) & (columns < self._most) & (columns == np.floor(columns))
        if not good.all():
            raise ValueError(
                f"pair {int(good.argmin()) + 1}: the index must be a whole number from {base} to "
                f"{self._most - 1 + base}"
            )
        keys = columns.astype(np.int64)
        _, places = np.unique(keys, return_index=True)
        if len(places) < len(keys):
            again = np.ones(len(keys), np.bool_)
            again[places] = False
            raise ValueError(
                f"pair {int(again.argmax()) + 1}: the index appears twice; it must appear once"
            )
        return keys

    def _wide_enough(self, keys: NDArray[np.int64]) -> int:
        if self.wanted.width is not None:
            return self.wanted.width
        self._width = max(self._width or 1, int(keys.max(initial=0)) + 1)
        return self._width


class LibsvmEncoder(RecordEncoder):
    """Writes lines with the label first; 0 stands for a missing label, as in scikit-learn."""

    one_width = False

    def pieces(self, batch: Batch) -> Iterator[bytes]:
        check_labels(batch, 1, "text/libsvm")
        check_beside(batch, "text/libsvm")
        check_finite(batch)
        labels = np.zeros((len(batch), 1)) if batch.labels is None else batch.labels
        rows = batch.sparse()
        counts = np.diff(rows.starts).tolist()
        queries = batch.queries or [None] * len(batch)
        template = "".join(
            [
                f"%s{'' if query is None else f' qid:{query}'}{' %d:%s' * count}\n"
                for query, count in zip(queries, counts, strict=True)
            ]
        )
        words = np.empty(len(batch) + 2 * len(rows.values), object)
        firsts = 2 * rows.starts[:-1] + np.arange(len(batch))
        words[firsts] = _texts(labels[:, 0])
        pairs = np.ones(len(words), np.bool_)
        pairs[firsts] = False
        places = np.flatnonzero(pairs)
        words[places[::2]] = rows.keys
        words[places[1::2]] = _texts(rows.values)
        yield (template % tuple(words.tolist())).encode()

    def finish(self) -> Iterator[bytes]:
        return iter(())


def _query(word: bytes) -> int:
    digits = word.removeprefix(_QUERY)
    if not digits.isdigit() or len(digits) > _MOST_DIGITS:
        raise ValueError(
            f"the query's number (qid) must be a whole number of at most {_MOST_DIGITS} digits"
        )
    return int(digits)


def _texts(numbers: NDArray[Any]) -> list[str]:
    return json_text(numbers).decode()[1:-1].split(",") if len(numbers) else []
