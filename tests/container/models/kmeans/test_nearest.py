"""Nearest centroids, beside what is computed one pair at a time in exact arithmetic."""

from __future__ import annotations

import logging
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.container.errors import ModelError
from partway.container.models.kmeans.nearest import Nearest, OnCpu, gpu
from partway.protocol.formats import Batch, SparseRows

MIB = 1 << 20

Rows = list[list[float]]


class Small(OnCpu):
    """Chunks of a row or two."""

    at_once = 8


class Failing(OnCpu):
    """As torch does where memory is short."""

    def smallest(self, array: object) -> object:
        raise RuntimeError("CUDA out of memory")


@st.composite
def whole_numbers(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]]]:
    """Centroids and records so close to each other that many are equally near.

    Some are far from zero, where the product of matrices has no correct digit left; some of these
    have a centroid on the other side, so that centring does not help.
    """
    width = draw(st.integers(1, 5))
    offset = draw(st.sampled_from([0, 1000, 1 << 26, 1 << 45]))
    row = st.lists(st.integers(offset - 3, offset + 3), min_size=width, max_size=width)
    centroids = draw(st.lists(row, min_size=1, max_size=8))
    if draw(st.booleans()):
        centroids.append([-offset] * width)
    return centroids, draw(st.lists(row, min_size=1, max_size=20))


@st.composite
def any_numbers(draw: st.DrawFn) -> tuple[Rows, Rows]:
    width = draw(st.integers(1, 4))
    # Smaller ones have squares that are no numbers of full precision any more.
    number = st.floats(-1e140, 1e140).map(lambda each: each if abs(each) > 1e-100 else 0.0)
    row = st.lists(number, min_size=width, max_size=width)
    return draw(st.lists(row, min_size=1, max_size=6)), draw(st.lists(row, min_size=1, max_size=6))


def find(nearest: Nearest, rows: Rows) -> tuple[list[int], list[float]]:
    clusters, distances = nearest.find(Batch(np.array(rows, np.float64)))
    return clusters.tolist(), distances.tolist()


@given(whole_numbers())
def test_whole_numbers_to_the_last_bit(case: tuple[list[list[int]], list[list[int]]]) -> None:
    centroids, rows = case
    for nearest in (
        Nearest(np.array(centroids, np.float64)),
        Nearest(np.array(centroids, np.float64), Small(), large_from=0),
    ):
        clusters, distances = find(nearest, rows)
        for row, cluster, distance in zip(rows, clusters, distances, strict=True):
            squares = [
                sum((a - b) ** 2 for a, b in zip(row, centroid, strict=True))
                for centroid in centroids
            ]
            assert cluster == squares.index(min(squares)), "the first of those equally near"
            assert distance == math.sqrt(min(squares))


@given(any_numbers())
def test_any_numbers(case: tuple[Rows, Rows]) -> None:
    centroids, rows = case
    clusters, distances = find(Nearest(np.array(centroids)), rows)
    for row, cluster, distance in zip(rows, clusters, distances, strict=True):
        exact = [math.dist(row, centroid) for centroid in centroids]
        assert distance == pytest.approx(exact[cluster], rel=1e-14)
        assert exact[cluster] <= min(exact) * (1 + 1e-14)


@given(any_numbers())
def test_a_record_does_not_depend_on_its_neighbours(case: tuple[Rows, Rows]) -> None:
    centroids, rows = case
    nearest = Nearest(np.array(centroids))
    alone = [find(nearest, [row]) for row in rows]
    together = find(nearest, rows)
    assert together == ([each[0][0] for each in alone], [each[1][0] for each in alone])


def test_a_large_batch_beside_a_loop() -> None:
    rng = np.random.default_rng(5)
    centroids = rng.normal(size=(50, 33)) + 1e6
    rows = rng.normal(size=(40_000, 33)) + 1e6
    clusters, distances = Nearest(centroids).find(Batch(rows))
    squares = np.array([np.square(rows - each).sum(axis=1) for each in centroids])
    np.testing.assert_array_equal(clusters, squares.argmin(axis=0))
    np.testing.assert_array_equal(distances, np.sqrt(squares.min(axis=0)))


def test_sparse_records() -> None:
    nearest = Nearest(np.array([[0.0, 0.0, 3.0], [4.0, 0.0, 0.0]]))
    rows = SparseRows(np.array([4.0, 1.0, 1.0]), np.array([0, 2, 2]), np.array([0, 2, 3, 3]), 3)
    clusters, distances = nearest.find(Batch(rows))
    assert (clusters.tolist(), distances.tolist()) == ([1, 0, 0], [1.0, 2.0, 3.0])


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, 1e141])
def test_a_number_without_a_distance(wrong: float) -> None:
    rows = np.zeros((9, 2))
    rows[7, 1] = wrong
    with pytest.raises(ModelError, match=r"^record 7: a number is NaN, infinite or beyond") as told:
        Nearest(np.zeros((1, 2)), Small(), large_from=0).find(Batch(rows))
    assert told.value.status == 400


@pytest.mark.parametrize(
    ("records", "centroids"), [(10_000, (2000, 4)), (12_000, (4, 2000))], ids=["many", "wide"]
)
def test_memory_does_not_grow_with_the_batch(records: int, centroids: tuple[int, int]) -> None:
    """Whole, these would be 160 MB of distances, and 192 MB of zeros."""
    nearest = Nearest(np.random.default_rng(1).normal(size=centroids))
    ones = np.ones(records)
    sparse = SparseRows(ones, ones.astype(np.int64), np.arange(records + 1), centroids[1])
    tracemalloc.start()
    try:
        nearest.find(Batch(sparse))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 80 * MIB


def test_equally_near_ones_in_bounded_memory() -> None:
    """Each of them is a candidate for every record, in 160 MB of differences."""
    nearest = Nearest(np.ones((1000, 20)))
    rows = Batch(np.zeros((1000, 20)))
    tracemalloc.start()
    try:
        clusters, _ = nearest.find(rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not clusters.any()
    assert peak < 100 * MIB


def test_large_batches_alone_go_to_the_gpu(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    nearest = Nearest(np.array([[1.0], [5.0]]), Failing(), large_from=6)
    assert find(nearest, [[0.0], [9.0]]) == ([0, 1], [1.0, 4.0])
    assert not caplog.messages
    assert find(nearest, [[0.0], [9.0], [3.0]]) == ([0, 1, 0], [1.0, 4.0, 2.0])
    assert caplog.messages == ['the GPU failed, computing on the CPU reason="CUDA out of memory"']


def test_a_gpu_that_cannot_hold_the_centroids(caplog: pytest.LogCaptureFixture) -> None:
    class Full(OnCpu):
        def place(self, array: object) -> object:
            raise RuntimeError("CUDA out of memory")

    nearest = Nearest(np.array([[1.0]]), Full(), large_from=0)
    assert find(nearest, [[3.0]]) == ([0], [2.0])
    assert len(caplog.messages) == 1


def test_no_torch_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)  # as if it were not installed
    assert gpu() is None
