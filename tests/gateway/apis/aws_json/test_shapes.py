"""Shapes are read from botocore's own files, at the first call, off the loop, once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

from partway.gateway.apis.aws_json import shapes
from partway.gateway.apis.aws_json.shapes import ServiceShapes, Shape, read_inputs
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
