"""Models of scikit-learn in files of joblib's, served as they are, and asked as clients ask.

It needs scikit-learn and pandas, so pytest collects it only where it is named: ``make formats``
does.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import textwrap
import urllib.request
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from partway.container.errors import LoadFailed
from partway.container.hosting.script import Script
from partway.container.hosting.sklearn_model import SklearnModel
from partway.container.testing import serving
from tests.processes import running

pytestmark = pytest.mark.usefixtures("no_leaks")

JSON, LINES, CSV, NPY = "application/json", "application/jsonlines", "text/csv", "application/x-npy"
IRIS = load_iris()
ROWS = IRIS.data[::50]

PEOPLE = pd.DataFrame(
    {
        "age": [20, 30, 40, np.nan, 60, 70],
        "city": ["Ulm", "Bonn", "Ulm", "Bonn", "Ulm", "Bonn"],
        "paid": [1.5, 2.0, 3.0, 4.5, 5.0, 6.5],
    }
)
SPENT = [10.0, 12.0, 21.0, 25.0, 33.0, 38.0]


def saved(model: object, folder: Path) -> Path:
    path = folder / "model.joblib"
    joblib.dump(model, path)
    return path


def npy(rows: object) -> bytes:
    content = io.BytesIO()
    np.save(content, np.asarray(rows))
    return content.getvalue()


def of_text(rows: np.ndarray) -> str:
    return "".join(",".join(map(repr, row)) + "\n" for row in rows.tolist())


@pytest.fixture
def iris() -> LogisticRegression:
    """It was fitted on an array, with labels of text."""
    return LogisticRegression(max_iter=1000).fit(IRIS.data, IRIS.target_names[IRIS.target])


@pytest.fixture
def pipeline() -> Any:
    """It was fitted on a DataFrame, with a column of text and with values that are missing."""
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "paid"]),
            ("words", OneHotEncoder(), ["city"]),
        ]
    )
    return make_pipeline(columns, LinearRegression()).fit(PEOPLE, SPENT)


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
async def test_every_format_both_ways(iris: Any, method: Any, tmp_path: Path) -> None:
    expected = getattr(iris, method)(ROWS).tolist()
    bodies = {
        CSV: of_text(ROWS),
        f"{CSV}; header=present": "a,b,c,d\n" + of_text(ROWS),
        JSON: json.dumps({"instances": ROWS.tolist()}),
        LINES: "".join(f"{json.dumps(row)}\n" for row in ROWS.tolist()),
        NPY: npy(ROWS),
        "text/libsvm": "".join(
            "0 " + " ".join(f"{at}:{value}" for at, value in enumerate(row)) + "\n"
            for row in ROWS.tolist()
        ),
    }
    async with serving(SklearnModel(saved(iris, tmp_path), method)) as served:
        for content_type, body in bodies.items():
            answer = await served.invoke(body, content_type)
            assert (answer.status, answer.content_type) == (200, JSON), answer.body
            assert json.loads(answer.body) == {"predictions": expected}
        lines = await served.invoke(bodies[CSV], CSV, Accept=LINES)
        assert [json.loads(line) for line in lines.body.splitlines()] == expected
        array = await served.invoke(bodies[CSV], CSV, Accept=NPY)
        assert np.load(io.BytesIO(array.body), allow_pickle=False).tolist() == expected
        text = await served.invoke(bodies[CSV], CSV, Accept=CSV)
        if method == "predict":
            assert text.body.decode().split() == expected
        else:
            np.testing.assert_array_equal(
                np.loadtxt(io.BytesIO(text.body), delimiter=","), expected
            )


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("age,city,paid\n20,Ulm,1.5\n,Bonn,4.5\n", CSV),
        ("paid,city,age\n1.5,Ulm,20\n4.5,Bonn,\n", CSV),
        ("20,Ulm,1.5\n,Bonn,4.5\n", CSV),
        ('{"instances": [{"city": "Ulm", "age": 20, "paid": 1.5}, [null, "Bonn", 4.5]]}', JSON),
        ('{"inputs": {"city": ["Ulm", "Bonn"], "age": [20, null], "paid": [1.5, 4.5]}}', JSON),
        (
            '{"columns": ["paid", "age", "city"], "data": [[1.5, 20, "Ulm"], [4.5, null, "Bonn"]]}',
            JSON,
        ),
        (PEOPLE.iloc[[0, 3]].to_json(orient="records"), JSON),
        (PEOPLE.iloc[[0, 3]].to_json(orient="split"), JSON),
        (PEOPLE.iloc[[0, 3]].to_json(orient="records", lines=True), LINES),
        (PEOPLE.iloc[[0, 3]].to_csv(index=False), CSV),
    ],
)
async def test_a_pipeline_over_a_data_frame(
    pipeline: Any, body: str, content_type: str, tmp_path: Path
) -> None:
    async with serving(SklearnModel(saved(pipeline, tmp_path))) as served:
        answer = await served.invoke(body, content_type)
    assert answer.status == 200, answer.body
    expected = pipeline.predict(PEOPLE.iloc[[0, 3]]).tolist()
    assert json.loads(answer.body) == {"predictions": expected}


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        ("20,Ulm\n", CSV, "record 0: the record has 2 features; it must have 3, as the model was"),
        ('[{"age": 20, "city": "Ulm"}]', JSON, "record 0: the column 'paid' is missing; the colum"),
        ("20,Paris,1\n", CSV, "the model refuses the records: Found unknown categories ['Paris']"),
        ("x,Ulm,1\n", CSV, "the model refuses the records: "),
    ],
)
async def test_what_a_client_gets_wrong_is_400(
    pipeline: Any, body: str, content_type: str, reason: str, tmp_path: Path
) -> None:
    async with serving(SklearnModel(saved(pipeline, tmp_path))) as served:
        answer = await served.invoke(body, content_type)
        assert (await served.invoke("20,Ulm,1\n", CSV)).status == 200
    assert answer.status == 400
    assert answer.body.decode().startswith(reason)


@pytest.mark.parametrize(
    ("body", "content_type", "place"),
    [
        ("1,2,3,4\n1,abc,3,4\n", CSV, "such value: record 1, features[1]"),
        ("1,2,3,4\n1,2,,4\n", CSV, "missing value: record 1, features[2]"),
        ('[[1, 2, 3, "a"]]', JSON, "such value: record 0, features[3]"),
        ("[[1, null, 3, 4]]", JSON, "missing value: record 0, features[1]"),
        ("[[1, 2, 3, 1e400]]", JSON, "infinite value: record 0, features[3]"),
        (npy([[1, 2, 3, 4], [1, 2, 3, np.nan]]), NPY, "missing value: record 1, features[3]"),
    ],
)
async def test_a_value_that_the_model_refuses_is_placed(
    iris: Any, body: str | bytes, content_type: str, place: str, tmp_path: Path
) -> None:
    async with serving(SklearnModel(saved(iris, tmp_path))) as served:
        answer = await served.invoke(body, content_type)
    assert answer.status == 400
    said = answer.body.decode().rstrip()
    assert said.startswith("the model refuses the records: ")
    assert said.endswith(f"(the first {place})")


async def test_without_pandas_columns_go_by_their_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    frame = PEOPLE[["paid"]]
    path = saved(LinearRegression().fit(frame, SPENT), tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with caplog.at_level(logging.WARNING):
        async with serving(SklearnModel(path)) as served:
            answer = await served.invoke('[{"paid": 1.5}]', JSON)
    assert answer.status == 200
    assert any("pandas is not installed" in each.getMessage() for each in caplog.records)


async def test_texts(tmp_path: Path) -> None:
    texts = ["a good film", "a bad film", "good", "bad"]
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, [1, 0, 1, 0])
    async with serving(SklearnModel(saved(model, tmp_path))) as served:
        for body in ('{"instances": ["good film", "so bad"]}', '["good film", "so bad"]'):
            answer = await served.invoke(body, JSON)
            assert json.loads(answer.body) == {"predictions": [1, 0]}


async def test_streams(iris: Any, tmp_path: Path) -> None:
    async with serving(SklearnModel(saved(iris, tmp_path))) as served, served.stream() as client:
        await client.send("5.1,3.5,1.4,0.2")
        assert await client.recv() == "setosa"
        await client.send("[5.1,3.5,1.4,0.2]")
        assert await client.recv() == '{"predictions": ["setosa"]}'
        await client.send("1,2")
        assert "it must have 4, as the model was fitted" in await client.recv()


async def test_a_model_of_another_version(
    iris: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sklearn.base.__version__", "0.20.1")
    path = saved(iris, tmp_path)
    monkeypatch.undo()
    with caplog.at_level(logging.WARNING):
        async with serving(SklearnModel(path)):
            pass
    (warning,) = (each.getMessage() for each in caplog.records if "another" in each.getMessage())
    assert "fitted=0.20.1" in warning


@pytest.mark.parametrize(
    ("held", "method", "reason"),
    [
        ({"a": 1}, "predict", "model.joblib holds a dict, which has no predict()"),
        (SVC(), "predict_proba", "model.joblib holds a SVC, which has no predict_proba()"),
    ],
)
async def test_a_file_of_something_else(
    held: object, method: Any, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(LoadFailed) as raised:
        async with serving(SklearnModel(saved(held, tmp_path), method)):
            pass
    assert reason in str(raised.value.__cause__)


async def test_a_file_that_is_broken(tmp_path: Path) -> None:
    (tmp_path / "model.joblib").write_bytes(b"not a pickle")
    with pytest.raises(LoadFailed) as raised:
        async with serving(SklearnModel(Path("model.joblib")), tmp_path):
            pass
    assert "model.joblib cannot be read: " in str(raised.value.__cause__)


async def test_a_script_with_joblib(
    iris: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(iris, tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    # A module name can be taken once in a process.
    path = tmp_path / f"{tmp_path.name}.py"
    path.write_text(
        textwrap.dedent(
            """
            import joblib
            from pathlib import Path
            def model_fn(model_dir): return joblib.load(Path(model_dir) / "model.joblib")
            """
        )
    )
    expected = iris.predict(ROWS).tolist()
    async with serving(Script(path, {}), tmp_path) as served:
        for body, content_type in ((of_text(ROWS), CSV), (npy(ROWS), NPY)):
            answer = await served.invoke(body, content_type)
            assert json.loads(answer.body) == expected
        one = await served.invoke("5.1,3.5,1.4,0.2", CSV)
        assert json.loads(one.body) == ["setosa"]
        asked = await served.invoke(json.dumps({"instances": ROWS.tolist()}), JSON)
        assert json.loads(asked.body) == {"predictions": expected}


def test_through_the_gateway(iris: Any, tmp_path: Path) -> None:
    """The one line of the page, asked by the paths of each service."""
    path = saved(iris, tmp_path)
    rows = [[5.1, 3.5, 1.4, 0.2], [6.0, 3.0, 5.0, 2.0]]
    flat = [value for row in rows for value in row]
    tensor = {"name": "x", "shape": [2, 4], "datatype": "FP64", "data": flat}
    command = f"{sys.executable} -m partway.container serve --sklearn {path}"
    flags = ("--port", "0", "--data-dir", str(tmp_path / "data"))
    with running("partway", "serve", *flags, "--endpoint", f"iris={command}") as url:

        def asked(path: str, body: object) -> Any:
            data = json.dumps(body).encode()
            request = urllib.request.Request(f"{url}{path}", data, {"Content-Type": JSON})
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)

        expected = ["setosa", "virginica"]
        google = "/v1/projects/p/locations/l/endpoints/iris:predict"
        assert asked(google, {"instances": rows})["predictions"] == expected
        assert asked("/v1/models/iris:predict", {"instances": rows}) == {"predictions": expected}
        assert asked("/v1/models/iris:predict", {"inputs": rows}) == {"outputs": expected}
        (output,) = asked("/v2/models/iris/infer", {"inputs": [tensor]})["outputs"]
        assert (output["datatype"], output["data"]) == ("BYTES", expected)
        assert asked("/endpoints/iris/invocations", rows) == {"predictions": expected}
