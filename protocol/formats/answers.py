"""A model's answers: named columns with one or several numbers per record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import orjson

from partway.protocol.errors import quoted
from partway.protocol.formats.batches import Numbers, is_finite
from partway.protocol.formats.faults import UnsupportedMedia
from partway.protocol.formats.npy import bytes_of, header_of
from partway.protocol.formats.number_text import json_rows, json_text
from partway.protocol.formats.record_schema import Record
from partway.protocol.formats.recordio import framed
from partway.protocol.formats.records import put_tensor

JSON: Final = "application/json"
JSON_LINES: Final = "application/jsonlines"
CSV: Final = "text/csv"
RECORDIO: Final = "application/x-recordio-protobuf"
NPY: Final = "application/x-npy"

#: Answers that are written in one call of a library.
_AT_ONCE: Final = 4096


@dataclass(frozen=True, slots=True, eq=False)
class AnswerColumns:
    """Answers to the records of a request, in order.

    Attributes:
        columns: by name, of whole numbers or of floats: (records,), or (records, n) for several
            numbers per record.
        key: the member of the JSON object that holds the answers: ``predictions``, ``scores``,
            ``projections``.
        uid: each record's uid, echoed if the format has a place for it; None if no record has one.
        metadata: each record's metadata, likewise.

    Raises:
        ValueError: there is no column, columns differ in length, or a number is not finite.
    """

    columns: Mapping[str, Numbers]
    key: str = "predictions"
    uid: Sequence[str | None] | None = None
    metadata: Sequence[str | None] | None = None

    def __post_init__(self) -> None:
        lengths = {name: len(each) for name, each in self.columns.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(
                f"columns of {lengths} answers were given; all must have the same length"
            )
        for name, each in self.columns.items():
            if each.ndim not in {1, 2} or each.dtype.kind not in "fiu":
                raise ValueError(
                    f"the column {name} has {each.ndim} dimensions of {each.dtype}; it must have "
                    "one or two, of numbers"
                )
            if not is_finite(each):
                raise ValueError(f"the column {name} has NaN or infinite numbers")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def encode_answers(answers: AnswerColumns, media_type: str) -> bytes:
    """Write answers in one of :data:`ANSWER_TYPES`.

    Raises:
        UnsupportedMedia: the format is not supported for answers.
    """
    write = _WRITERS.get(media_type)
    if write is None:
        raise UnsupportedMedia(
            f"{quoted(media_type)} was asked for; answers must be in one of "
            f"{', '.join(ANSWER_TYPES)}"
        )
    return write(answers)


# --- Text ----------------------------------------------------------------------------------------


def _texts(column: Numbers) -> list[str]:
    """Return each answer's numbers as JSON texts: ``5.0``, or ``[5.0,1.0]``."""
    if column.ndim == 1:
        return json_text(column).decode()[1:-1].split(",")
    return [f"[{each.decode()}]" for each in json_rows(column)]


def _objects(answers: AnswerColumns) -> list[str]:
    names = [orjson.dumps(name).decode() for name in answers.columns]
    template = ", ".join(f"{name.replace('%', '%%')}: %s" for name in names)
    objects = []
    for start in range(0, len(answers), _AT_ONCE):
        columns = [_texts(each[start : start + _AT_ONCE]) for each in answers.columns.values()]
        objects += [f"{{{template % each}}}" for each in zip(*columns, strict=True)]
    return objects


def _to_json(answers: AnswerColumns) -> bytes:
    key = orjson.dumps(answers.key).decode()
    return f"{{{key}: [{', '.join(_objects(answers))}]}}".encode()


def _to_json_lines(answers: AnswerColumns) -> bytes:
    return "".join([f"{each}\n" for each in _objects(answers)]).encode()


def _to_csv(answers: AnswerColumns) -> bytes:
    lines: list[str] = []
    for start in range(0, len(answers), _AT_ONCE):
        columns = [_texts(each[start : start + _AT_ONCE]) for each in answers.columns.values()]
        lines += [",".join(each) for each in zip(*columns, strict=True)]
    text = "".join([f"{each}\n" for each in lines])
    return text.translate({ord("["): None, ord("]"): None}).encode()


# --- Binary --------------------------------------------------------------------------------------


def _to_recordio(answers: AnswerColumns) -> bytes:
    frames = []
    for row in range(len(answers)):
        record: Any = Record()
        for name, column in answers.columns.items():
            put_tensor(record.label[name], _as_float32(np.atleast_1d(column[row])))
        if answers.uid is not None and answers.uid[row] is not None:
            record.uid = answers.uid[row]
        if answers.metadata is not None and answers.metadata[row] is not None:
            record.metadata = answers.metadata[row]
        frames.append(framed(record.SerializeToString(deterministic=True)))
    return b"".join(frames)


def _as_float32(numbers: Numbers) -> Numbers:
    """Convert to float32, as AWS's algorithms answer; numbers beyond float32 stay as they are."""
    with np.errstate(over="ignore"):
        narrow = numbers.astype(np.float32)
    return narrow if np.isfinite(narrow).all() else numbers


def _to_npy(answers: AnswerColumns) -> bytes:
    columns = [each.reshape(len(answers), -1) for each in answers.columns.values()]
    # Several columns are combined into rows. A single one is copied once, into the body.
    rows = columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)
    rows = np.ascontiguousarray(rows)
    return b"".join([header_of(rows.shape, rows.dtype), bytes_of(rows)])


_WRITERS: Final[Mapping[str, Callable[[AnswerColumns], bytes]]] = {
    JSON: _to_json,
    JSON_LINES: _to_json_lines,
    CSV: _to_csv,
    RECORDIO: _to_recordio,
    NPY: _to_npy,
}
#: Media types of answers; the first one is for clients that ask for none.
ANSWER_TYPES: Final = tuple(_WRITERS)
