"""gateway.batch.command_locations: what names input and output, and that they do not meet."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from partway.gateway.batch import inputs as inputs_module
from partway.gateway.batch.command_locations import places
from partway.gateway.storage.places.place import StorageFailed
from partway.gateway.timing.clock import LoopClock

pytestmark = pytest.mark.usefixtures("anyio_backend")


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("in", "in"),
        ("in", "in/../in/."),
        ("in", "link"),
        ("in/part-", "in"),
        ("s3://bucket/in/", "s3://bucket/in/"),
        ("s3://bucket/in/", "s3://bucket/in"),
        ("s3://bucket/in/", "s3://bucket/in/out"),
        ("s3://bucket/in", "s3://bucket/input-out/"),
        ("s3://bucket", "s3://bucket/out"),
    ],
)
async def test_output_that_would_be_input(tmp_path, monkeypatch, source, target):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to("in")
    with pytest.raises(StorageFailed, match="the next run would read its output as input; it must"):
        places(source, target, "", LoopClock(), manifest=False)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("in/a", "in"),
        ("in", "out"),
        ("in", "."),
        ("s3://bucket/in/", "s3://other/in/"),
        ("s3://bucket/in/", "s3://bucket/inside/"),
        ("s3://bucket/in/", "in"),
        ("in", "s3://bucket/in"),
    ],
)
async def test_output_elsewhere(tmp_path, monkeypatch, source, target):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("a")
    places(source, target, "", LoopClock(), manifest=False)


@pytest.mark.parametrize(("source", "target"), [("a" * 300, "out"), ("in", "circle")])
async def test_a_path_that_cannot_be_looked_up(tmp_path, monkeypatch, source, target):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("a")
    (tmp_path / "circle").symlink_to("circle")

    async def begun():
        inputs, outputs = places(source, target, "", LoopClock(), manifest=False)
        (file,) = await inputs.files()
        async with outputs.output(file.name):
            pass

    with pytest.raises(StorageFailed):
        await begun()


async def test_output_inside_is_passed_over_as_input(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("in/a", "in/out/a.out", "in/other/out"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a")
    inputs, _ = places("in", str(tmp_path / "in" / "out"), "", LoopClock(), manifest=False)
    assert [each.name for each in await inputs.files()] == ["a", "other/out"]


async def read(source):
    inputs, _ = places(source, "/nowhere", "", LoopClock(), manifest=False)
    found = {}
    for file in await inputs.files():
        async with aclosing(inputs.pieces(file)) as pieces:
            found[file.name] = b"".join([piece async for piece in pieces])
    return found


async def test_what_input_is(tmp_path, monkeypatch):
    """A file by its name alone, all of a folder, or the files that begin so."""
    monkeypatch.chdir(tmp_path)
    for name in ("in/a.csv", "in/a.csv2", "in/b/a.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "a folder").symlink_to("in/b")
    (tmp_path / "link.csv").symlink_to("in/a.csv")
    assert await read("in/a.csv") == {"a.csv": b"in/a.csv"}
    assert await read("./in/../link.csv") == {"link.csv": b"in/a.csv"}
    assert await read("in/a.csv2") == {"a.csv2": b"in/a.csv2"}
    assert set(await read("in/a")) == {"a.csv", "a.csv2"}
    assert set(await read("in/")) == set(await read("in")) == {"a.csv", "a.csv2", "b/a.csv"}
    assert set(await read(f"{tmp_path}/a folder")) == {"a.csv"}
    monkeypatch.chdir(tmp_path / "in" / "b")
    assert set(await read("..")) == {"a.csv", "a.csv2", "b/a.csv"}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("none", "none: there must be a file, or a folder with files"),
        ("empty", "empty: there must be a file, or a folder with files"),
        ("none/below", "none: No such file or directory"),
    ],
)
async def test_there_must_be_input(tmp_path, monkeypatch, source, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(StorageFailed, match=said):
        await read(source)


async def test_no_more_than_a_job_takes(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs_module, "MAX_FILES", 1)
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    with pytest.raises(StorageFailed, match="has more than 1 files; name a folder with fewer"):
        await read(str(tmp_path))
