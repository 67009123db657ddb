"""partway.gateway.transform.places: what names input and output, and that they do not meet."""

from __future__ import annotations

import pytest

from partway.gateway.clock import LoopClock
from partway.gateway.transform.places import places
from partway.gateway.transform.storage import StorageFailed

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
    with pytest.raises(StorageFailed, match="output there would be input the next time; it must"):
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
