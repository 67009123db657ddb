"""Records as arrays: parts of them, and several as one."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from partway.protocol.formats import Batch, SparseRows, joined
from partway.protocol.formats.batches import is_finite

ROWS = SparseRows(np.array([1.0, 4, 1, 2]), np.array([3, 0, 1, 2]), np.array([0, 2, 3, 3, 4]), 4)
DENSE = [[4, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 2, 0]]


def test_some_rows():
    assert ROWS.dense().tolist() == DENSE
    for start, stop in [(0, 2), (1, 4), (2, 3), (2, 2), (3, 99), (-1, None)]:
        assert ROWS.dense(start, stop).tolist() == DENSE[start:stop]
        assert Batch(ROWS).dense(start, stop).tolist() == DENSE[start:stop]
        assert Batch(np.array(DENSE)).dense(start, stop).tolist() == DENSE[start:stop]


def test_width_and_length():
    assert (len(Batch(ROWS)), Batch(ROWS).width) == (4, 4)
    assert (len(Batch(np.ones((2, 3)))), Batch(np.ones((2, 3))).width) == (2, 3)


def test_dense_and_sparse_ones_joined():
    batch = joined([Batch(np.ones((1, 4))), Batch(ROWS, first=1)])
    assert isinstance(batch.features, SparseRows)
    assert batch.dense().tolist() == [[1, 1, 1, 1], *DENSE]
    assert batch.first == 0


def test_what_records_have_is_kept_beside_those_that_have_nothing():
    one = Batch(np.ones((1, 2)), np.ones((1, 1)), uid=["a"])
    two = Batch(np.ones((2, 2), np.float32), metadata=["b", None], first=1)
    batch = joined([one, two])
    assert (batch.uid, batch.metadata) == (["a", None, None], [None, "b", None])
    assert (batch.configurations, batch.labels) == (None, None)
    assert batch.features.dtype == np.float64
    assert joined([one, one]).labels.tolist() == [[1], [1]]


@pytest.mark.skipif(importlib.util.find_spec("scipy") is None, reason="scipy is not installed")
def test_as_scipy_has_them():
    assert ROWS.to_scipy().toarray().tolist() == DENSE


#: Shorter than what BLAS is asked for, as long, and with numbers behind.
SIZES = [0, 1, 4095, 4096, 4097, 12_288, 13_001]
WRONG = [np.nan, np.inf, -np.inf]


def numbers(size, dtype=np.float64):
    return np.linspace(-3, 3, size).astype(dtype)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, ">f8"])
def test_finite_numbers(size, dtype):
    assert is_finite(numbers(size, dtype))


@pytest.mark.parametrize("size", SIZES[1:])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, ">f8"])
@pytest.mark.parametrize("wrong", WRONG)
def test_one_that_is_not(size, dtype, wrong):
    for place in {*range(0, size, 509), *range(0, size, 1024), size // 2, size - 1}:
        array = numbers(size, dtype)
        array[place] = wrong
        assert not is_finite(array), place


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_infinities_do_not_make_up_for_one_another(dtype):
    for first, second in ((0, 1), (0, 1024), (0, 4096), (5000, 12_999)):
        array = numbers(13_000, dtype)
        array[[first, second]] = np.inf, -np.inf
        assert not is_finite(array)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_numbers_whose_sum_is_infinite(dtype):
    array = np.full(13_000, np.finfo(dtype).max)
    assert is_finite(array)
    array[1::2] *= -1
    assert is_finite(array)
    array[7000] = np.nan
    assert not is_finite(array)


def test_integers_and_booleans():
    assert is_finite(np.full(13_000, np.iinfo(np.int64).max))
    assert is_finite(np.ones(13_000, np.bool_))


@pytest.mark.parametrize("wrong", [None, *WRONG])
def test_arrays_that_are_not_in_one_piece(wrong):
    array = numbers(26_000).reshape(1000, 26)
    if wrong is not None:
        array[900, 3] = wrong
    bent = np.frombuffer(b"\0" + array.tobytes(), np.uint8)[1:].view(np.float64)
    assert not bent.flags.aligned
    for each in (array, array[:, ::3], array.T, np.asfortranarray(array), array[::-1], bent):
        assert is_finite(each) == (wrong is None)


def test_nothing_is_warned_of(recwarn):
    is_finite(np.full(13_000, np.finfo(np.float32).max, np.float32))
    is_finite(np.full(13_000, np.nan))
    assert not recwarn
