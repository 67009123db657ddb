"""Records as arrays: parts of them, and several as one."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from partway.protocol.formats import Batch, SparseRows, joined

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
