"""``application/x-npy``: one array of numbers, one record per row. Pickles are never read."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import numpy as np
from numpy.lib import format as npy

from partway.protocol.formats.batches import Batch, Numbers
from partway.protocol.formats.decoding import RecordDecoder, Tabular
from partway.protocol.formats.encoding import (
    Piece,
    RecordEncoder,
    check_beside,
    check_labels,
    check_queries,
)
from partway.protocol.formats.faults import Malformed, OverLimit
from partway.protocol.limits import KIB, MAX_RECORD_BYTES

_VERSIONS: Final = {(1, 0), (2, 0)}
_PREFIX: Final = npy.MAGIC_LEN
#: Longest header: numpy pads its own to 64 or 128 bytes, and refuses longer ones.
_MAX_HEADER: Final = 10 * KIB
#: The header's Python literal, as written by numpy and others; it is never evaluated.
_HEADER: Final = re.compile(
    r"\{\s*'descr'\s*:\s*'(?P<descr>[<>|=]?[a-zA-Z][0-9]*)'\s*,"
    r"\s*'fortran_order'\s*:\s*(?P<order>True|False)\s*,"
    r"\s*'shape'\s*:\s*\((?P<shape>\s*([0-9]{1,18}\s*,\s*)*([0-9]{1,18}\s*)?)\)\s*,?\s*\}\s*",
    re.ASCII,
)


class NpyDecoder(RecordDecoder):
    """Reads the header, then rows as they come; an array in column order is read at its end.

    An array of one dimension is one record. With more than two dimensions, a row has the numbers of
    all but the first.
    """

    def __init__(self, wanted: Tabular) -> None:
        super().__init__(wanted)
        self._held = bytearray()
        self._dtype: np.dtype[Any] | None = None
        self._in_columns = False
        self._rows = 0
        self._wide = 0
        #: Bytes that are still to come, and the number of bytes that make up whole records.
        self._left = 0
        self._unit = 1

    def feed(self, data: bytes) -> Iterator[Batch]:
        rest = memoryview(data)
        if self._dtype is None:
            known = len(self._held)
            self._held += rest[: _PREFIX + _MAX_HEADER + 4]
            begin = self._read_header()
            if not begin:
                return
            self._held.clear()
            rest = rest[begin - known :]
        is_over = len(rest) > self._left
        rest = rest[: self._left]
        self._left -= len(rest)
        # A record that began earlier is completed by itself; whole rows are not copied.
        missing = min(self._unit - len(self._held), len(rest)) if self._held else 0
        self._held += rest[:missing]
        if len(self._held) == self._unit:
            yield self._batch(bytes(self._held))
            self._held.clear()
        whole = len(rest) - (len(rest) - missing) % self._unit
        if whole > missing:
            yield self._batch(rest[missing:whole])
        self._held += rest[whole:]
        if is_over:
            raise Malformed(
                "there are bytes after the array; the body must end after the "
                f"{self._rows} rows that its header states"
            )

    def finish(self) -> Iterator[Batch]:
        if self._dtype is None:
            raise Malformed("the body ends inside its header, or it is not a .npy file")
        if self._left:
            raise Malformed(
                f"the array is cut; it must have {self._rows} rows of {self._wide} numbers, as its "
                "header says",
                record=self.records,
            )
        self._check_some()
        yield from ()

    def _read_header(self) -> int:
        """Read the header once it is complete; check it before any number is read.

        Returns:
            Its length; 0 if it is incomplete.
        """
        held = self._held
        if not npy.MAGIC_PREFIX.startswith(bytes(held[: len(npy.MAGIC_PREFIX)])):
            raise Malformed(
                "the body must begin as .npy files do, with the bytes 93 4e 55 4d 50 59"
            )
        if len(held) < _PREFIX:
            return 0
        version = (held[6], held[7])
        if version not in _VERSIONS:
            raise Malformed("the body's version of .npy is not supported; it must be 1.0 or 2.0")
        count = 2 * version[0]
        if len(held) < _PREFIX + count:
            return 0
        length = int.from_bytes(held[_PREFIX : _PREFIX + count], "little")
        if length > _MAX_HEADER:
            raise Malformed(f"the header has {length} bytes; it must have at most {_MAX_HEADER}")
        begin = _PREFIX + count + length
        if len(held) < begin:
            return 0
        shape, self._in_columns, dtype = _header(bytes(held[_PREFIX + count : begin]))
        self._judge(shape, dtype)
        return begin

    def _judge(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        if dtype.kind not in "fiub" or dtype.itemsize > 8:
            raise Malformed(
                "the array must have real numbers of at most 8 bytes each, and no objects"
            )
        if not shape:
            raise Malformed("the array has no dimension; it must have two: records and features")
        self._rows = 1 if len(shape) == 1 else shape[0]
        self._wide = math.prod(shape[-1:] if len(shape) == 1 else shape[1:])
        self._in_columns = self._in_columns and len(shape) > 1
        if self._in_columns and len(shape) > 2:
            raise Malformed("an array of more than two dimensions must be in C order")
        if self._rows:
            self._check_width(self._wide, 0)
        whole = self._rows if self._in_columns else 1
        self._unit = max(whole * self._wide * dtype.itemsize, 1)
        if self._unit > MAX_RECORD_BYTES:
            raise OverLimit(
                f"{'an array in Fortran order' if self._in_columns else 'a record'} must have at "
                f"most {MAX_RECORD_BYTES} bytes: send a smaller one"
            )
        self._left = self._rows * self._wide * dtype.itemsize
        self._dtype = dtype

    def _batch(self, data: bytes | memoryview) -> Batch:
        numbers = np.frombuffer(data, self._dtype)
        if self._in_columns:
            numbers = numbers.reshape(self._wide, self._rows).T
        return self._judged(Batch(_native(numbers.reshape(-1, self._wide)), first=self.records))


def _header(text: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Parse a header: the shape, whether the order is by columns, and the type."""
    found = _HEADER.fullmatch(text.decode("latin-1"))
    if found is not None:
        with suppress(TypeError):
            shape = tuple(int(each) for each in found["shape"].split(",") if each.strip())
            return shape, found["order"] == "True", np.dtype(found["descr"])
    raise Malformed("the header must be as numpy.save writes it for an array of numbers")


def _native(array: Numbers) -> Numbers:
    """Return the same numbers in this machine's byte order and in row order."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))


class NpyEncoder(RecordEncoder):
    """Writes one array at the end, because its header states the number of rows."""

    def __init__(self) -> None:
        self._rows: list[Numbers] = []

    def pieces(self, batch: Batch) -> Iterator[bytes]:
        check_labels(batch, 0, "application/x-npy")
        check_beside(batch, "application/x-npy")
        check_queries(batch, "application/x-npy")
        self._rows.append(batch.dense())
        yield from ()

    def finish(self) -> Iterator[Piece]:
        rows = sum(map(len, self._rows))
        width = self._rows[0].shape[1] if self._rows else 0
        dtype = np.result_type(*self._rows) if self._rows else np.dtype(np.float64)
        yield header_of((rows, width), dtype)
        for each in self._rows:
            yield bytes_of(np.ascontiguousarray(each, dtype))


def header_of(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """Return the header of an array in C order."""
    file = io.BytesIO()
    npy.write_array_header_1_0(file, {"descr": dtype.str, "fortran_order": False, "shape": shape})
    return file.getvalue()


def bytes_of(array: Numbers) -> memoryview:
    """Return the memory of an array in C order, as single bytes, without a copy."""
    return array.reshape(-1).view(np.uint8).data
