"""One array: rows as they come, and what is never read."""

from __future__ import annotations

import io

import numpy as np
import pytest

from partway.protocol.formats import (
    Batch,
    OverLimit,
    Tabular,
    decoder_for,
    encode,
    encode_pieces,
    format_of,
)
from partway.protocol.limits import MAX_RECORD_BYTES
from tests.protocol.formats.cases import read, refused

NPY = "application/x-npy"


def npy(array: np.ndarray, version: tuple[int, int] = (1, 0)) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    return file.getvalue()


def with_header(text: str, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + data


@pytest.mark.parametrize("kind", ["<f8", ">f8", "<f4", "<f2", "<i8", ">i4", "|i1", "<u8", "|b1"])
def test_rows(kind):
    array = np.arange(30).reshape(10, 3).astype(kind)
    for version in ((1, 0), (2, 0)):
        for ordered in (array, np.asfortranarray(array)):
            for size in (0, 1, 50):
                batch = read(npy(ordered, version), NPY, size=size)
                assert np.array_equal(batch.features, array)
                assert batch.features.dtype == array.dtype.newbyteorder("=")


def test_other_dimensions():
    assert read(npy(np.array([1.5, 16, 14, 23])), NPY).features.tolist() == [[1.5, 16, 14, 23]]
    assert read(npy(np.arange(12).reshape(2, 2, 3)), NPY).features.shape == (2, 6)


def test_rows_come_before_the_array_is_whole():
    body = npy(np.arange(100_000.0).reshape(-1, 4))
    decoder = decoder_for(NPY, Tabular())
    first = [*decoder.feed(body[:400_000])]
    assert sum(map(len, first)) == (400_000 - 128) // 32
    assert sum(map(len, decoder.feed(body[400_000:]))) == 25_000 - len(first[0])
    assert [*decoder.finish()] == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"PK\x03\x04", "the body must begin as .npy files do"),
        (b"", "the body ends inside its header, or it is not a .npy file"),
        (npy(np.ones((2, 2)))[:100], "the body ends inside its header, or it is not a .npy file"),
        (npy(np.ones((2, 2)))[:-1], "record 1: the array is cut; it must have 2 rows of 2 numbers"),
        (npy(np.ones((2, 2))) + b"x", "there are bytes after the array; the body must end after"),
        (npy(np.ones((0, 2))), "the body has no record"),
        (npy(np.ones((2, 0))), "record 0: the record has 0 features"),
        (npy(np.ones(())), "the array has no dimension"),
        (npy(np.array([["a"]])), "the array must have real numbers"),
        (npy(np.array([[1j]])), "the array must have real numbers"),
        (npy(np.array([[1, np.nan]])), "record 0: feature 1 is NaN or infinite"),
        (npy(np.asfortranarray(np.ones((2, 2, 2)))), "an array of more than two dimensions must "),
        (npy(np.ones((1, 1)), (3, 0)), "the body's version of .npy is not supported"),
        (with_header("{'descr': '|O', 'fortran_order': False, 'shape': (1, 1), }", b"cos\nsys"),
         "the array must have real numbers"),
        (with_header("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1, 1), }"),
         "the header must be as numpy.save writes it"),
        (with_header("{'descr': '(2,)<f8', 'fortran_order': False, 'shape': (1, 1), }"),
         "the header must be as numpy.save writes it"),
        (with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1\x1d), }"),
         "the header must be as numpy.save writes it"),
        (with_header("{'descr': '<f3', 'fortran_order': False, 'shape': (1, 1), }"),
         "the header must be as numpy.save writes it"),
        (with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (1, True), }"),
         "the header must be as numpy.save writes it"),
        (with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 1), }"),
         "the header must be as numpy.save writes it"),
        (with_header("(" * 9000), "the header must be as numpy.save writes it"),
        (with_header("__import__('os').abort()"), "the header must be as numpy.save writes it"),
        (with_header("x" * 11_000), "the header has 11000 bytes; it must have at most 10240"),
    ],
)  # fmt: skip
def test_faults(body, reason):
    assert refused(body, NPY).startswith(reason)


def test_a_pickle_is_never_read():
    file = io.BytesIO()
    np.save(file, np.array([[object()]], object), allow_pickle=True)
    assert refused(file.getvalue(), NPY).startswith("the array must have real numbers")


def test_what_is_announced_is_judged_before_it_comes():
    header = "{'descr': '<f8', 'fortran_order': %s, 'shape': (%d, %d), }"
    with pytest.raises(OverLimit, match=f"a record must have at most {MAX_RECORD_BYTES} bytes"):
        read(with_header(header % ("False", 1, 1 << 30)), NPY)
    with pytest.raises(OverLimit, match="an array in Fortran order must have at most"):
        read(with_header(header % ("True", 1 << 30, 1)), NPY)
    assert refused(with_header(header % ("False", 1 << 59, 1)), NPY).startswith(
        "record 0: the array"
    )


def test_what_is_written_in_pieces_is_the_memory_of_the_arrays():
    features = np.arange(6.0).reshape(3, 2)
    header, data = encode_pieces(Batch(features), NPY)
    assert b"".join([header, data]) == npy(features)
    assert isinstance(data, memoryview)
    assert (data.nbytes, len(data)) == (48, 48)
    assert np.shares_memory(np.frombuffer(data), features)


def test_batches_are_written_one_after_the_other_in_the_type_of_all():
    encoder = format_of(NPY).encoder()
    columns = np.asfortranarray(np.arange(4.0).reshape(2, 2))
    assert encoder.encode(Batch(np.ones((1, 2), np.float32))) == b""
    assert encoder.encode(Batch(columns)) == b""
    assert b"".join(encoder.finish()) == npy(np.array([[1.0, 1], [0, 1], [2, 3]]))


@pytest.mark.parametrize("kind", [">f8", "|b1", "<f2", "<i8"])
def test_writing_other_types(kind):
    features = np.arange(6).reshape(3, 2).astype(kind)
    native = features.astype(features.dtype.newbyteorder("="))
    assert encode(Batch(features), NPY) == npy(native)
    assert encode(Batch(features[:0]), NPY) == npy(native[:0])


def test_writing():
    features = np.array([[1.5, 2], [3, 4]], np.float32)
    body = encode(Batch(features), NPY)
    assert body == npy(features)
    assert np.load(io.BytesIO(body)).tolist() == features.tolist()
