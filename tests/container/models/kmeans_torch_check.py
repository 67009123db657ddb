"""kmeans through torch gives what numpy gives, to the last bit.

It needs torch, so pytest collects it only where it is named: ``make test-text`` does. Where there
is a GPU it is computed on too.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from partway.container.models.kmeans.nearest import Nearest, OnTorch, gpu
from partway.protocol.formats import Batch

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
@given(
    seed=st.integers(0, 1 << 32),
    shape=st.tuples(st.integers(1, 40), st.integers(1, 20), st.integers(1, 6)),
    offset=st.sampled_from([0.0, 1e3, 1e9, 1e15]),
    whole=st.booleans(),
)
def test_as_on_the_cpu(
    device: str, seed: int, shape: tuple[int, int, int], offset: float, *, whole: bool
) -> None:
    records, clusters, width = shape
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(records, width)) + offset
    centroids = rng.normal(size=(clusters, width)) + offset
    centroids[0] = -offset  # so that centring does not bring the others near zero
    if whole:  # many are equally near
        rows, centroids = rows.round(), centroids.round()
    backend = OnTorch(device)
    backend.at_once = 100  # several chunks
    expected = Nearest(centroids).find(Batch(rows))
    found = Nearest(centroids, backend, large_from=0).find(Batch(rows))
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


def test_a_large_batch() -> None:
    rng = np.random.default_rng(7)
    centroids = rng.normal(size=(300, 64)) + 1e4
    rows = Batch(rng.normal(size=(20_000, 64)) + 1e4)
    centroids[0] = 0
    expected = Nearest(centroids).find(rows)
    found = Nearest(centroids, OnTorch(DEVICES[-1])).find(rows)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


def test_it_is_chosen_where_there_is_a_gpu() -> None:
    assert isinstance(gpu(), OnTorch) == torch.cuda.is_available()
