"""linear: probabilities and the class, in the forms that AWS's linear learner answers in."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from partway.container.models.arrays import ArraysError
from partway.container.models.linear import LINEAR_FILE, Linear
from partway.container.testing import serving

pytestmark = pytest.mark.usefixtures("no_leaks")


def save(folder: Path, weights: object, bias: object) -> None:
    np.savez(folder / LINEAR_FILE, weights=np.array(weights), bias=np.array(bias))


async def test_two_classes(tmp_path: Path) -> None:
    save(tmp_path, [[math.log(3), 0.0]], [0.0])
    async with serving(Linear(), tmp_path) as served:
        answer = await served.invoke("0,9\n-1000,0\n1000,0", "text/csv")
        assert answer.body == (
            b'{"predictions": [{"score": 0.5, "predicted_label": 0}, '
            b'{"score": 0.0, "predicted_label": 0}, {"score": 1.0, "predicted_label": 1}]}'
        )
        answer = await served.invoke("1,0", "text/csv", Accept="text/csv")
        score, label = answer.body.split(b",")
        assert (float(score), label) == (pytest.approx(0.75), b"1\n")


async def test_several_classes(tmp_path: Path) -> None:
    save(tmp_path, [[0.0], [0.0], [math.log(2)]], [0.0, 0.0, 0.0])
    async with serving(Linear(), tmp_path) as served:
        answer = await served.invoke("0\n2000\n", "text/csv", Accept="application/jsonlines")
    first, second = answer.body.splitlines()
    assert first.startswith(b'{"score": [0.3333333333333333,')
    assert first.endswith(b'], "predicted_label": 0}')
    assert second == b'{"score": [0.0,0.0,1.0], "predicted_label": 2}'


@pytest.mark.parametrize(
    ("weights", "bias", "reason"),
    [
        ([1.0, 2.0], [0.0], r"linear.npz, weights.npy has the shape \(2,\); it must be \(classes"),
        ([[1.0, 2.0]], [[0.0]], r"bias.npy has the shape \(1, 1\); it must be \(classes\)"),
        (
            [[1.0, 2.0]],
            [0.0, 0.0],
            "1 rows of weights and 2 numbers of bias; both numbers must be equal",
        ),
        ([[1.0, np.nan]], [0.0], "row 0 has a number that is NaN"),
    ],
)
def test_files_that_are_none(tmp_path: Path, weights: object, bias: object, reason: str) -> None:
    save(tmp_path, weights, bias)
    with pytest.raises(ArraysError, match=reason):
        Linear().load(tmp_path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ArraysError, match=r"has no linear.npz: write it with numpy.savez"):
        Linear().load(tmp_path)
    np.savez(tmp_path / LINEAR_FILE, weights=np.ones((1, 2)))
    with pytest.raises(ArraysError, match=r"has no array called bias: write it with numpy.savez"):
        Linear().load(tmp_path)
    (tmp_path / LINEAR_FILE).write_bytes(b"no archive")
    with pytest.raises(ArraysError, match=r"cannot be read: .*zip"):
        Linear().load(tmp_path)
    with pytest.raises(ArraysError, match=r"there is no directory .*none: name another"):
        Linear().load(tmp_path / "none")
