"""Shapes are read from botocore's own files, at the first call, off the loop, once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
import unicodedata

import pytest

from partway.gateway.apis.aws_json import shapes
from partway.gateway.apis.aws_json.shapes import ServiceShapes, Shape, compiled, read_inputs
from tests.gateway.apis.control.operations import OPERATIONS

VERSION = "2017-07-24"


def test_a_shape_has_what_botocore_says():
    model = read_inputs("sagemaker", VERSION, OPERATIONS)["CreateModel"]
    assert model.form == "structure"
    assert "ModelName" in model.required
    name = model.members["ModelName"]
    assert (name.form, name.most) == ("string", 63)
    assert name.pattern is not None
    assert name.pattern.fullmatch("a-b")
    container = model.members["PrimaryContainer"]
    assert container.members["Mode"].values == ("SingleModel", "MultiModel")
    environment = container.members["Environment"]
    assert environment.form == "map"
    assert environment.key is not None
    assert environment.item is not None
    assert container.members["ModelDataUrl"].is_location
    assert not name.is_location
    assert model.members["Containers"].item is container


def test_every_operation_that_is_asked_about_can_be_read():
    inputs = read_inputs("sagemaker", VERSION, OPERATIONS)
    assert tuple(inputs) == OPERATIONS
    assert all(shape.form == "structure" for shape in inputs.values())


def test_shapes_of_logs_can_be_read():
    (shape,) = read_inputs("logs", "2014-03-28", ["GetLogEvents"]).values()
    assert shape.members["startTime"].bound == 2**63


async def test_they_are_read_once_on_another_thread(monkeypatch):
    threads = []

    def reading(service, version, operations):
        threads.append((threading.get_ident(), service, version, operations))
        return {"ListModels": Shape("structure"), "ListTags": Shape("structure")}

    monkeypatch.setattr(shapes, "read_inputs", reading)
    service = ServiceShapes("sagemaker", VERSION, ["ListModels", "ListTags"])
    await asyncio.gather(*map(service.input_of, ["ListModels", "ListTags", "ListModels"]))
    ((thread, *rest),) = threads
    assert thread != threading.get_ident()
    assert rest == ["sagemaker", VERSION, ("ListModels", "ListTags")]


def test_files_of_the_users_are_not_looked_at(tmp_path, monkeypatch):
    folder = tmp_path / "sagemaker" / VERSION
    folder.mkdir(parents=True)
    (folder / "service-2.json").write_text('{"operations": {}, "shapes": {}, "metadata": {}}')
    monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path))
    assert read_inputs("sagemaker", VERSION, ["ListModels"])["ListModels"].members


def test_botocore_is_not_imported_before_the_first_call():
    code = "import sys, partway.gateway.gateway; print('botocore' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


TAG = r"([\p{L}\p{Z}\p{N}_.:/=+\-@]*)"


def test_categories_of_unicode_are_those_of_every_character():
    every = [chr(point) for point in range(sys.maxunicode + 1)]
    expected = {
        char for char in every if unicodedata.category(char)[0] in "LZN" or char in "_.:/=+-@"
    }
    assert set(compiled(f"{TAG[:-2]})").findall("".join(every))) == expected


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (r"\d{2}", "12", True),
        (r"\d{2}", "\N{ARABIC-INDIC DIGIT ONE}\N{ARABIC-INDIC DIGIT TWO}", False),
        (r"[\S]+", "a\N{NO-BREAK SPACE}b", True),
        (r"[\S]+", "a b", False),
        (r".*", "a\tb", True),
        (r".*", "a\nb", False),
        (r".*", "a\rb", False),
        (r".*", "a\u2028b", False),
        (r"[.]", "a", False),
        (r"\.", "a", False),
        (r"[\s\S]+", "a\n\r", True),
        (r"^[a-z]$", "a", True),
        (r"(?!\s*$).+", "  ", False),
        (r"[^/]", "\n", True),
        (r"[a-z]", "a\n", False),
    ],
)  # fmt: skip
def test_matches(pattern, text, expected):
    assert (compiled(pattern).fullmatch(text) is not None) is expected


@pytest.mark.parametrize("pattern", [r"\p{Lu}", r"[\p{L}]", r"[a-z&&[b]]", "(", "[b-a]"])
def test_what_has_no_equal_here_is_an_error(pattern):
    with pytest.raises(ValueError, match="AWS's pattern"):
        compiled(pattern)


def test_no_pattern_takes_long_with_any_text_of_the_length_that_is_tried():
    """A pattern that tries all ways to part a text would not come to an end."""
    found = {}

    def walk(shape):
        if shape.pattern is not None:
            assert shape.most is not None
            found[shape.written] = shape
        for inner in (*shape.members.values(), shape.item, shape.key):
            if inner is not None:
                walk(inner)

    for shape in read_inputs("sagemaker", "2017-07-24", OPERATIONS).values():
        walk(shape)
    assert len(found) > 20
    for shape in found.values():
        for piece in ("a", "-", "a-", "0", "/", ".", "+a", "-a.", "\n", "é", " "):
            text = (piece * int(shape.most))[: int(shape.most)]
            for beginning in ("", "s3://", "arn:aws:sagemaker::000000000000:", "a/a", "mig-1g.5gb"):
                began = time.thread_time()
                shape.pattern.fullmatch(beginning + text + "\0")
                assert time.thread_time() - began < 1, (shape.written, piece)
