"""pca: projections, in the forms that AWS's PCA answers in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from partway import Batch, ModelError
from partway.container.models.arrays import ArraysError
from partway.container.models.pca import PCA, PCA_FILE
from partway.container.testing import serving

pytestmark = pytest.mark.usefixtures("no_leaks")


async def test_projections(tmp_path: Path) -> None:
    components = np.array([[0.6, 0.8, 0.0], [0.0, 0.0, 2.0]])
    np.savez(tmp_path / PCA_FILE, components=components, mean=np.array([1.0, 1.0, 1.0]))
    async with serving(PCA(), tmp_path) as served:
        for accept, expected in (
            ("application/json", b'{"projections": [{"projection": [5.0,8.0]}]}'),
            ("application/jsonlines", b'{"projection": [5.0,8.0]}\n'),
            ("text/csv", b"5.0,8.0\n"),
        ):
            answer = await served.invoke("4,5,5", "text/csv", Accept=accept)
            assert (answer.status, answer.body) == (200, expected)
        answer = await served.invoke("1e308,-1e308,1e308", "text/csv")
        assert answer.status == 500, "what is beyond float64 is no projection"


def test_what_would_fill_memory_is_refused_before_it_is_computed(tmp_path: Path) -> None:
    np.savez(tmp_path / PCA_FILE, components=np.ones((9, 1)), mean=np.ones(1))
    model = PCA()
    model.load(tmp_path)
    rows = np.broadcast_to(np.ones(1), (1 << 20, 1))
    with pytest.raises(ModelError, match="send at most 932067 records") as refused:
        model.predict(Batch(rows))
    assert refused.value.status == 413


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ArraysError, match=r"has no pca.npz: write it with numpy.savez"):
        PCA().load(tmp_path)
    np.savez(tmp_path / PCA_FILE, components=np.ones((2, 3)), mean=np.ones(2))
    with pytest.raises(ArraysError, match="components of 3 features and a mean of 2"):
        PCA().load(tmp_path)
