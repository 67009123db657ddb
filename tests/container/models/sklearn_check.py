"""The models that ship answer as scikit-learn does, which their files are from.

It needs scikit-learn, so pytest collects it only where it is named: ``make formats`` does.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import KMeans as TheirKMeans
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_iris
from sklearn.decomposition import PCA as TheirPCA
from sklearn.linear_model import LogisticRegression

from partway import Model
from partway.container.models.kmeans import KMeans
from partway.container.models.linear import Linear
from partway.container.models.pca import PCA
from partway.container.testing import serving

pytestmark = pytest.mark.usefixtures("no_leaks")

IRIS = load_iris()
CANCER = load_breast_cancer()


async def answers(model: Model, folder: Path, rows: np.ndarray, key: str = "predictions") -> dict:
    """What is answered to rows as CSV, as npy and as LibSVM of scikit-learn's: each the same."""
    csv = "".join([",".join(map(repr, row)) + "\n" for row in rows.tolist()])
    npy, libsvm = io.BytesIO(), io.BytesIO()
    np.save(npy, rows)
    dump_svmlight_file(rows, np.zeros(len(rows)), libsvm, zero_based=True)
    found = []
    async with serving(model, folder) as served:
        for body, content_type in (
            (csv, "text/csv"),
            (npy.getvalue(), "application/x-npy"),
            (libsvm.getvalue(), "text/libsvm"),
        ):
            answer = await served.invoke(body, content_type)
            assert answer.status == 200, answer.body
            objects = json.loads(answer.body)[key]
            found.append({name: np.array([each[name] for each in objects]) for name in objects[0]})
    for name, column in found[0].items():
        np.testing.assert_array_equal(found[1][name], column)
        np.testing.assert_allclose(found[2][name], column, rtol=1e-12)  # 16 digits, as it writes
    return found[0]


async def test_kmeans(tmp_path: Path) -> None:
    theirs = TheirKMeans(n_clusters=5, n_init=2, random_state=1).fit(IRIS.data)
    np.save(tmp_path / "centroids.npy", theirs.cluster_centers_)
    found = await answers(KMeans(), tmp_path, IRIS.data)
    np.testing.assert_array_equal(found["closest_cluster"], theirs.predict(IRIS.data))
    nearest = theirs.transform(IRIS.data).min(axis=1)
    np.testing.assert_allclose(found["distance_to_cluster"], nearest, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("data", [IRIS, CANCER], ids=["three classes", "two classes"])
async def test_linear(tmp_path: Path, data: object) -> None:
    rows, labels = data.data, data.target
    theirs = LogisticRegression(solver="newton-cholesky").fit(rows, labels)
    np.savez(tmp_path / "linear.npz", weights=theirs.coef_, bias=theirs.intercept_)
    found = await answers(Linear(), tmp_path, rows)
    np.testing.assert_array_equal(found["predicted_label"], theirs.predict(rows))
    scores = theirs.predict_proba(rows)
    expected = scores[:, 1] if scores.shape[1] == 2 else scores
    np.testing.assert_allclose(found["score"], expected, rtol=1e-9, atol=1e-300)


async def test_pca(tmp_path: Path) -> None:
    theirs = TheirPCA(n_components=3).fit(CANCER.data)
    np.savez(tmp_path / "pca.npz", components=theirs.components_, mean=theirs.mean_)
    found = await answers(PCA(), tmp_path, CANCER.data, "projections")
    np.testing.assert_allclose(
        found["projection"], theirs.transform(CANCER.data), rtol=1e-9, atol=1e-9
    )
