"""``application/x-npy``: one array of numbers, a record a row. Pickles are never read."""

from __future__ import annotations

import ast
import io
import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.lib import format as npy

from partway.protocol.limits import KIB, MAX_RECORD_BYTES, MEDIA_PIECE
from partway.protocol.media.batches import Batch, Numbers
from partway.protocol.media.decoding import RecordDecoder, Tabular
from partway.protocol.media.encoding import RecordEncoder, check_labels
from partway.protocol.media.faults import Malformed, OverLimit

_VERSIONS: Final = {(1, 0), (2, 0)}
_PREFIX: Final = npy.MAGIC_LEN
#: Longest header: numpy pads its own to 64 bytes or 128, and reads none that is longer.
_MAX_HEADER: Final = 10 * KIB


class NpyDecoder(RecordDecoder):
    """Reads the header, then rows as they are whole; an array in columns is whole at its end.

    One dimension is one record; more than two are rows of all the others' numbers.

    Args:
        wanted: what the records must be.
    """

    def __init__(self, wanted: Tabular) -> None:
        super().__init__(wanted)
        self._held = bytearray()
        self._dtype: np.dtype[Any] | None = None
        self._in_columns = False
        self._rows = 0
        self._wide = 0

    def feed(self, data: bytes) -> Iterator[Batch]:
        for start in range(0, len(data), MEDIA_PIECE):
            self._held += data[start : start + MEDIA_PIECE]
            if self._dtype is None and not self._read_header():
                continue
            yield from self._whole_rows()

    def finish(self) -> Iterator[Batch]:
        if self._dtype is None:
            raise Malformed("the body is cut in its header, or is no .npy file")
        if self.records < self._rows or self._held:
            raise Malformed(
                f"the array is cut; it must have {self._rows} rows of {self._wide} numbers, as its "
                "header says",
                record=self.records,
            )
        self._check_some()
        yield from ()

    def _read_header(self) -> bool:
        """Read the header once it is whole; all it says is judged before a number is read."""
        held = self._held
        if not npy.MAGIC_PREFIX.startswith(bytes(held[: len(npy.MAGIC_PREFIX)])):
            raise Malformed(
                "the body must begin as .npy files do, with the bytes 93 4e 55 4d 50 59"
            )
        if len(held) < _PREFIX:
            return False
        version = (held[6], held[7])
        if version not in _VERSIONS:
            raise Malformed(
                "the array is in a version of .npy that numbers do not need; it must be 1.0 or 2.0"
            )
        count = 2 * version[0]
        if len(held) < _PREFIX + count:
            return False
        length = int.from_bytes(held[_PREFIX : _PREFIX + count], "little")
        if length > _MAX_HEADER:
            raise Malformed(f"the header has {length} bytes; it must have at most {_MAX_HEADER}")
        begin = _PREFIX + count + length
        if len(held) < begin:
            return False
        shape, self._in_columns, dtype = _header(bytes(held[_PREFIX + count : begin]))
        self._held = held[begin:]
        self._judge(shape, dtype)
        return True

    def _judge(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        if dtype.kind not in "fiub" or dtype.itemsize > 8:
            raise Malformed(
                "the array must be of numbers: of 8 bytes at most, real, and no objects"
            )
        if not shape or min(shape) < 0:
            raise Malformed("the array has no dimension; it must have two: records and features")
        self._rows = 1 if len(shape) == 1 else shape[0]
        self._wide = math.prod(shape[-1:] if len(shape) == 1 else shape[1:])
        self._in_columns = self._in_columns and len(shape) > 1
        if self._in_columns and len(shape) > 2:
            raise Malformed("an array of more than two dimensions must be in C order")
        if self._rows:
            self._check_width(self._wide, 0)
        whole = self._rows if self._in_columns else 1
        if whole * self._wide * dtype.itemsize > MAX_RECORD_BYTES:
            raise OverLimit(
                f"{'an array by columns' if self._in_columns else 'a record'} must be at most "
                f"{MAX_RECORD_BYTES} bytes: send a smaller one"
            )
        self._dtype = dtype

    def _whole_rows(self) -> Iterator[Batch]:
        assert self._dtype is not None, "the header was read"
        left = self._rows - self.records
        size = self._wide * self._dtype.itemsize
        rows = min(len(self._held) // size, left) if left else 0
        if self._in_columns and rows < left:
            rows = 0
        if rows:
            numbers = np.frombuffer(bytes(self._held[: rows * size]), self._dtype)
            del self._held[: rows * size]
            array = numbers.reshape(self._wide, rows).T if self._in_columns else numbers
            yield self._judged(Batch(_native(array.reshape(rows, -1)), first=self.records))
        if self.records == self._rows and self._held:
            raise Malformed(
                f"there are bytes after the array; it must end with its {self._rows} rows, as its "
                "header says"
            )


def _header(text: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """What a header says: the shape, whether numbers go by columns, their type."""
    try:
        match ast.literal_eval(text.decode("latin-1").strip()):
            case {"descr": str(name), "fortran_order": bool(in_columns), "shape": tuple(shape)}:
                if all(type(each) is int for each in shape):
                    return shape, in_columns, np.dtype(name)
            case _:
                pass
    # What literal_eval raises of text that is too long or too deep for it, and numpy of a name.
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        pass
    raise Malformed("the header must be as numpy.save writes it, of an array of numbers")


def _native(array: Numbers) -> Numbers:
    """The same numbers in this machine's order of bytes and in rows."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))


class NpyEncoder(RecordEncoder):
    """Writes one array, at the end: its header says how many rows there are."""

    def __init__(self) -> None:
        self._rows: list[Numbers] = []

    def encode(self, batch: Batch) -> bytes:
        check_labels(batch, 0, "application/x-npy")
        self._rows.append(batch.dense())
        return b""

    def finish(self) -> bytes:
        file = io.BytesIO()
        rows = np.concatenate(self._rows) if self._rows else np.empty((0, 0))
        npy.write_array(file, np.ascontiguousarray(rows), allow_pickle=False)
        return file.getvalue()
