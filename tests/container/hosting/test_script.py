"""Classic inference scripts: what their functions are called with, and what becomes of it."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from websockets.exceptions import InvalidStatus

from partway.container.errors import LoadFailed
from partway.container.hosting.script import Script
from partway.container.testing import Answered, Served, serving

pytestmark = pytest.mark.usefixtures("no_leaks")

JSON, CSV, NPY = "application/json", "text/csv", "application/x-npy"

#: A script with nothing but its model, which answers with what it is given.
IDENTITY = "def model_fn(model_dir): return lambda data: data"

Scripts = Callable[..., Path]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripts]:
    """Writes ``inference.py``, and forgets what it has imported."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)

    def write(text: str, name: str = "inference.py") -> Path:
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    yield write
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) in map(str, tmp_path.rglob("*.py")):
            del sys.modules[name]


@asynccontextmanager
async def served(path: Path, **environ: str) -> AsyncIterator[Served]:
    async with serving(Script(path, environ), path.parent) as running:
        yield running


def npy(value: object) -> bytes:
    content = io.BytesIO()
    np.save(content, np.array(value))
    return content.getvalue()


# --- The functions -------------------------------------------------------------------------------


async def test_each_function_gets_what_the_one_before_gave(script: Scripts) -> None:
    path = script(
        """
        def model_fn(model_dir): return open(model_dir + "/weights").read()
        def input_fn(body, content_type): return [body, content_type]
        def predict_fn(data, model): return [*data, model]
        def output_fn(prediction, accept): return repr([*prediction, accept]), "text/x-repr"
        """
    )
    (path.parent / "weights").write_text("the model")
    async with served(path) as running:
        assert await running.invoke(b"\xff", "audio/wav", Accept="text/html, */*") == Answered(
            200, "text/x-repr", b"[b'\\xff', 'audio/wav', 'the model', 'text/html, */*']"
        )


async def test_transform_fn_does_it_all(script: Scripts) -> None:
    path = script(
        """
        def model_fn(model_dir): return "model"
        def transform_fn(model, body, content_type, accept):
            return f"{model} {body!r} {content_type} {accept}"
        """
    )
    async with served(path) as running:
        assert await running.invoke(b"x", "text/plain", Accept="text/plain") == Answered(
            200, "text/plain", b"model b'x' text/plain text/plain"
        )


@pytest.mark.parametrize(
    ("accept", "given"), [("", JSON), ("*/*", JSON), ("text/html, */*", "text/html, */*")]
)
async def test_who_accepts_anything_gets_the_default(
    script: Scripts, accept: str, given: str
) -> None:
    path = script(
        """
        def model_fn(model_dir): return None
        def transform_fn(model, body, content_type, accept): return accept, "x/y"
        """
    )
    async with served(path) as running:
        assert (await running.invoke(Accept=accept)).body.decode() == given


@pytest.mark.parametrize("content_type", [JSON, CSV, "Text/CSV; charset=utf-8"])
async def test_json_and_csv_reach_functions_as_text(script: Scripts, content_type: str) -> None:
    """As in the toolkit: scripts put them into a StringIO."""
    path = script(
        """
        def model_fn(model_dir): return None
        def transform_fn(model, body, content_type, accept): return f"{body!r} {content_type}"
        """
    )
    async with served(path) as running:
        assert (await running.invoke("ü", content_type)).body.decode() == f"'ü' {content_type}"
        answer = await running.invoke(b"\xff", content_type)
        assert (answer.status, answer.body) == (400, b"the body is not UTF-8\n")


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("'text'", Answered(200, "image/png", b"text")),
        ("b'bytes'", Answered(200, "image/png", b"bytes")),
        ("bytearray(b'bytes')", Answered(200, "image/png", b"bytes")),
        ("(b'bytes', 'x/y')", Answered(200, "x/y", b"bytes")),
        ("{'a': [1]}", Answered(200, "image/png", b'{"a": [1]}')),
        ("object()", Answered(500, "text/plain; charset=utf-8", b"the model failed: TypeError\n")),
    ],
)
async def test_what_output_fn_may_return(
    script: Scripts, returned: str, expected: Answered
) -> None:
    path = script(
        f"""
        def model_fn(model_dir): return len
        def output_fn(prediction, accept): return {returned}
        """
    )
    async with served(path) as running:
        assert await running.invoke("[1]", JSON, Accept="image/png, image/gif") == expected


async def test_a_function_with_one_argument_more_gets_a_context(script: Scripts) -> None:
    path = script(
        """
        def model_fn(model_dir, context): return [model_dir, context]
        def input_fn(body, content_type, context=None): return context
        def predict_fn(data, model): return model[1] is data
        def output_fn(prediction, accept, context):
            return {"same": prediction, **context.system_properties}
        """
    )
    async with served(path) as running:
        assert json.loads((await running.invoke()).body) == {
            "same": True,
            "model_dir": str(path.parent),
            "gpu_id": 0,
            "batch_size": 1,
        }


async def test_what_is_called_around_model_fn(script: Scripts) -> None:
    path = script(
        """
        told = []
        def pre_model_fn(model_dir): told.append(["pre", model_dir])
        def model_fn(model_dir): told.append("model"); return "m"
        def model_warmup_fn(model_dir, model): told.append(["warm", model_dir, model])
        def predict_fn(data, model): return told
        """
    )
    here = str(path.parent)
    async with served(path) as running:
        answer = await running.invoke("1", JSON)
        assert json.loads(answer.body) == [["pre", here], "model", ["warm", here, "m"]]


async def test_a_model_that_predicts_needs_no_predict_fn(script: Scripts) -> None:
    path = script(
        """
        class Classifier:
            def predict(self, rows): return rows.sum(axis=1)
        def model_fn(model_dir): return Classifier()
        """
    )
    async with served(path) as running:
        assert (await running.invoke("[[1, 2], [3, 4]]", JSON)).body == b"[3, 7]"


async def test_functions_run_on_a_worker(script: Scripts) -> None:
    path = script(
        """
        import threading
        def model_fn(model_dir): return None
        def transform_fn(*_): return threading.current_thread().name
        """.replace("*_", "model, body, content_type, accept")
    )
    async with served(path) as running:
        assert (await running.invoke()).body.decode() != threading.current_thread().name


async def test_bodies_under_way_are_bounded_together(
    script: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("partway.container.serving.body.MAX_HELD_BODIES", 20)
    packed = gzip.compress(b"[" + b"1," * 100 + b"1]")
    async with served(script(IDENTITY)) as running:
        for _ in range(2):  # the bytes of one body are free for the next
            assert (await running.invoke("[1, 2]", JSON)).status == 200
            for answer in (
                await running.invoke("[" + "1," * 20 + "1]", JSON),
                await running.invoke(packed, JSON, Content_Encoding="gzip"),
            ):
                assert (answer.status, answer.body[:24]) == (503, b"the bodies of all reques")


async def test_a_coded_body_is_read_without_its_coding(script: Scripts) -> None:
    async with served(script(IDENTITY)) as running:
        packed = gzip.compress(b"[[1, 2]]")
        answer = await running.invoke(packed, JSON, Content_Encoding="gzip")
        assert (answer.status, answer.body) == (200, b"[[1, 2]]")


async def test_it_takes_no_streams(script: Scripts) -> None:
    async with served(script(IDENTITY)) as running:
        with pytest.raises(InvalidStatus, match="501"):
            await running.stream()


async def test_what_a_function_raises_is_its_clients_alone(script: Scripts) -> None:
    path = script(
        """
        from partway.container import ModelError
        def model_fn(model_dir): return None
        def predict_fn(data, model):
            if data == 1: raise LookupError("a secret")
            if data == 2: raise ModelError("not 2", status=422)
            return data
        """
    )
    async with served(path) as running:
        answers = [await running.invoke(body, JSON) for body in ("1", "2", "3")]
    assert [(answer.status, answer.body) for answer in answers] == [
        (500, b"the model failed: LookupError\n"),
        (422, b"not 2\n"),
        (200, b"3"),
    ]


# --- The defaults --------------------------------------------------------------------------------

DESCRIBE = """
    import numpy
    def model_fn(model_dir): return None
    def predict_fn(data, model):
        assert isinstance(data, numpy.ndarray)
        nan = data.dtype.kind == "f" and numpy.isnan(data).any()
        return {"of": [str(data.dtype), None if nan else data.tolist()]}
"""


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        ("[[1, 2], [3, 4]]", JSON, ["int64", [[1, 2], [3, 4]]]),
        ("[0.5, 1]", f"{JSON}; charset=utf-8", ["float64", [[0.5, 1]]]),
        ("7", JSON, ["int64", 7]),
        ("[]", JSON, ["float64", []]),
        ("[[[1, 2], [3, 4]]]", JSON, ["int64", [[[1, 2], [3, 4]]]]),
        ('{"a": 1, "b": 2}', JSON, ["int64", [[1, 2]]]),
        ('{"a": [1, 3], "b": [2, 4]}', JSON, ["int64", [[1, 2], [3, 4]]]),
        ('{"text": "a", "top": 2}', JSON, ["object", {"text": "a", "top": 2}]),
        ('{"inputs": "a"}', JSON, ["object", {"inputs": "a"}]),
        ('["a", "bc"]', JSON, ["<U2", ["a", "bc"]]),
        ('{"instances": ["a", "bc"]}', JSON, ["<U2", ["a", "bc"]]),
        ('{"instances": [1, 2]}', JSON, ["int64", [[1], [2]]]),
        (
            '{"instances": [{"a": 1, "b": "x"}, {"b": "y", "a": 2}]}',
            JSON,
            ["object", [[1, "x"], [2, "y"]]],
        ),
        ('{"instances": [[1, null], [2, 3]]}', JSON, ["float64", None]),
        ('{"instances": [{"features": [1, 2]}]}', JSON, ["int64", [[1, 2]]]),
        (
            '{"instances": [{"data": {"features": {"keys": [1], "shape": [2], "values": [5]}}}]}',
            JSON,
            ["float64", [[0, 5]]],
        ),
        ("1,2\n3,4\n", CSV, ["int64", [[1, 2], [3, 4]]]),
        ("0.5,1.5", CSV, ["float64", [[0.5, 1.5]]]),
        ("1\n2\n", CSV, ["int64", [[1], [2]]]),
        ("a,b", CSV, ["<U1", [["a", "b"]]]),
        ("1,a", CSV, ["object", [[1, "a"]]]),
        (npy([1.5, 2]), NPY, ["float64", [[1.5, 2.0]]]),
        (npy([[1.5], [2]]), NPY, ["float64", [[1.5], [2.0]]]),
        (npy([]), NPY, ["float64", [[]]]),
    ],
)
async def test_bodies_become_arrays(
    script: Scripts, body: str | bytes, content_type: str, expected: object
) -> None:
    async with served(script(DESCRIBE)) as running:
        answer = await running.invoke(body, content_type)
        assert (answer.status, json.loads(answer.body)) == (200, {"of": expected})


@pytest.mark.parametrize(
    "body",
    [
        "[[1, 2], [3, 4]]",
        '{"instances": [[1, 2], [3, 4]]}',
        '{"inputs": [[1, 2], [3, 4]]}',
        '{"inputs": {"a": [1, 3], "b": [2, 4]}}',
        '{"instances": [{"a": 1, "b": 2}, {"b": 4, "a": 3}]}',
        '{"inputs": [{"name": "x", "shape": [2, 2], "datatype": "INT64", "data": [1, 2, 3, 4]}]}',
        '{"columns": ["a", "b"], "data": [[1, 2], [3, 4]]}',
        '[{"a": 1, "b": 2}, {"a": 3, "b": 4}]',
    ],
)
async def test_a_table_is_the_same_array_in_every_form(script: Scripts, body: str) -> None:
    async with served(script(DESCRIBE)) as running:
        answer = await running.invoke(body, JSON)
        assert json.loads(answer.body) == {"of": ["int64", [[1, 2], [3, 4]]]}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("[[1, 2]]", [3]),
        ('{"instances": [[1, 2]]}', {"predictions": [3]}),
        ('{"parameters": null, "instances": [[1, 2]]}', {"predictions": [3]}),
        ('{"inputs": [[1, 2]]}', {"predictions": [3]}),
    ],
)
async def test_a_request_for_predictions_is_answered_with_them(
    script: Scripts, body: str, expected: object
) -> None:
    path = script("def model_fn(model_dir): return lambda rows: rows.sum(axis=1)")
    async with served(path) as running:
        assert json.loads((await running.invoke(body, JSON)).body) == expected
        assert (await running.invoke(body, JSON, Accept=CSV)).body == b"3\n"


async def test_predictions_of_a_script_that_reads_instances_itself(script: Scripts) -> None:
    path = script(
        """
        import json
        def model_fn(model_dir): return None
        def input_fn(body, content_type): return json.loads(body)
        def predict_fn(data, model): return [1] if "instances" in data else {"predictions": 2}
        """
    )
    async with served(path) as running:
        answers = [await running.invoke(body, JSON) for body in ('{"instances": [1]}', "{}")]
    assert [json.loads(each.body) for each in answers] == [{"predictions": [1]}, {"predictions": 2}]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("[[1], [1, 2]]", "record 1: the record has 2 values; it must have 1, as record 0 has"),
        ('{"instances": 7}', "instances: a number was given; it must be an array"),
        ('{"instances": [[1]], "also": 1}', "there are unknown members beside instances; only "),
        ('{"inputs": {"a": [1], "b": [1, 2]}}', "the columns have 1 to 2 values; each column"),
        ('{"inputs": [{"name": "x", "shape": [3], "datatype": "FP32", "data": [1]}]}', "inputs: "),
    ],
)
async def test_a_table_that_does_not_fit(script: Scripts, body: str, reason: str) -> None:
    async with served(script(DESCRIBE)) as running:
        answer = await running.invoke(body, JSON)
    assert (answer.status, answer.body.decode()[: len(reason)]) == (400, reason)


def endless_npy() -> bytes:
    """A header that tells of elements without a size: any number of them needs no byte."""
    header = io.BytesIO()
    shape = {"descr": "|S0", "fortran_order": False, "shape": (10**9,)}
    np.lib.format.write_array_header_1_0(header, shape)
    return header.getvalue()


def announced_npy() -> bytes:
    """A header that tells of eight exabytes."""
    header = io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (10**18,)}
    np.lib.format.write_array_header_1_0(header, shape)
    return header.getvalue()


def pickled_npy() -> bytes:
    content = io.BytesIO()
    np.save(content, np.array([{}], dtype=object), allow_pickle=True)
    return content.getvalue()


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("", JSON),
        ("{", JSON),
        ("[" * 100_000, JSON),
        ("9" * 10_000, JSON),
        ("", CSV),
        (" \n", CSV),
        ("1,2\n3\n", CSV),
        (b"", NPY),
        (b"PK\x03\x04", NPY),
        (npy([1, 2])[:-1], NPY),
        (pickled_npy(), NPY),
        (announced_npy(), NPY),
        (endless_npy(), NPY),
    ],
)
async def test_a_body_that_is_not_what_it_says(
    script: Scripts, body: str | bytes, content_type: str
) -> None:
    async with served(script(DESCRIBE)) as running:
        answer = await running.invoke(body, content_type)
        told = f"the body is not {content_type}, although its Content-Type says so\n"
        assert (answer.status, answer.body.decode()) == (400, told)
        assert (await running.invoke("[1]", JSON)).status == 200


@pytest.mark.parametrize("content_type", ["image/png", "application/x-npz", "json"])
async def test_a_body_of_another_type(script: Scripts, content_type: str) -> None:
    async with served(script(DESCRIBE)) as running:
        answer = await running.invoke("[1]", content_type)
    told = (
        f"Content-Type: {content_type!r} was given; it must be one of application/json, text/csv, "
        "application/x-npy\n"
    )
    assert (answer.status, answer.body.decode()) == (415, told)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", JSON),
        ("*/*", JSON),
        (JSON, JSON),
        ("text/csv", CSV),
        ("text/html, text/csv; q=0.5, application/json", CSV),
        ("text/html,*/*", JSON),
        ("application/x-npy", NPY),
    ],
)
async def test_answers_are_of_the_first_type_that_can_be_given(
    script: Scripts, accept: str, content_type: str
) -> None:
    read: dict[str, Callable[[bytes], object]] = {
        JSON: json.loads,
        CSV: lambda body: [[float(x) for x in row] for row in csv.reader(body.decode().split())],
        NPY: lambda body: np.load(io.BytesIO(body)).tolist(),
    }
    async with served(script(IDENTITY)) as running:
        answer = await running.invoke("[[1, 2], [3, 4.5]]", JSON, Accept=accept)
    assert (answer.status, answer.content_type) == (200, content_type)
    assert read[content_type](answer.body) == [[1, 2], [3, 4.5]]


async def test_an_answer_that_cannot_be_given(script: Scripts) -> None:
    async with served(script(IDENTITY)) as running:
        answer = await running.invoke("[1]", JSON, Accept="image/png, text/html;level=1")
    told = (
        "Accept: 'image/png, text/html' was given; it must allow one of application/json, "
        "text/csv, application/x-npy\n"
    )
    assert (answer.status, answer.body.decode()) == (406, told)


async def test_the_default_type_can_be_set(script: Scripts) -> None:
    setting = {"SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT": CSV}
    async with served(script(IDENTITY), **setting) as running:
        assert await running.invoke("[1, 2]", JSON, Accept="*/*") == Answered(200, CSV, b"1,2\n")


async def test_tensors_are_encoded_as_arrays_are(script: Scripts) -> None:
    path = script(
        """
        class Tensor:
            def tolist(self): return [1, 2]
        def model_fn(model_dir): return lambda data: {"of": Tensor()}
        """
    )
    async with served(path) as running:
        assert (await running.invoke("0", JSON)).body == b'{"of": [1, 2]}'


# --- The file ------------------------------------------------------------------------------------


async def test_what_lies_beside_it_can_be_imported(script: Scripts) -> None:
    script("VALUE = 'from beside'", name="beside_it.py")
    path = script(
        """
        import pickle
        from beside_it import VALUE
        class Kept: pass
        def model_fn(model_dir): return lambda data: VALUE
        pickle.loads(pickle.dumps(Kept()))
        """
    )
    async with served(path) as running:
        assert (await running.invoke("0", JSON)).body == b'"from beside"'
    assert sys.modules["inference"].__file__ == str(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must define model_fn(model_dir)"),
        ("def model_fn(): pass", "model_fn must take (model_dir)"),
        ("model_fn = 1", "1 is not a callable object"),
        (f"{IDENTITY}\ndef input_fn(body): pass", "input_fn must take (body, content_type)"),
        (
            f"{IDENTITY}\ndef transform_fn(a, b, c, d): pass\ndef output_fn(a, b): pass",
            "has transform_fn, which replaces output_fn: remove either",
        ),
        ("def model_fn(model_dir): return 1", "model_fn returned a int, which is not callable"),
        ("raise LookupError('at its import')", "at its import"),
        ("def model_fn(model_dir): raise LookupError('no weights')", "no weights"),
    ],
)
async def test_a_script_that_cannot_be_loaded(script: Scripts, text: str, says: str) -> None:
    with pytest.raises(LoadFailed) as raised:
        async with served(script(text)):
            pass
    assert says in str(raised.value.__cause__)


async def test_a_name_that_is_taken(script: Scripts) -> None:
    with pytest.raises(LoadFailed) as raised:
        async with served(script(IDENTITY, name="logging.py")):
            pass
    assert "a module logging is in use already" in str(raised.value.__cause__)


async def test_a_failed_import_leaves_no_module(script: Scripts) -> None:
    with pytest.raises(LoadFailed):
        async with served(script("raise LookupError")):
            pass
    assert "inference" not in sys.modules
