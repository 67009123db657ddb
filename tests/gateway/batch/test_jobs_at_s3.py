"""Jobs whose files are at s3://, on a server of ours."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import pytest

from partway.gateway.batch.command_locations import places
from partway.gateway.batch.execution_parameters import settled
from partway.gateway.batch.job import TransformJob
from partway.gateway.batch.options import TransformOptions
from partway.gateway.batch.results import FileState
from partway.gateway.storage.places.place import StorageFailed
from partway.gateway.timing.clock import LoopClock
from tests.gateway.batch.jobs import SaidModel
from tests.gateway.object_server import serving_objects

pytestmark = pytest.mark.usefixtures("anyio_backend")


@pytest.fixture
async def server(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with serving_objects(monkeypatch) as server:
        server.buckets["bucket"] = {
            "in/a.csv": b"1\n2\n", "in/b/c.csv": b"3", "in/b.csv": b"4\n", "inside/d": b"5",
            "in/": b"",
        }  # fmt: skip
        yield server


def inputs_at(url):
    return places(url, "/nowhere", "", LoopClock(), manifest=False)[0]


async def transformed(source, target, answer=lambda body: body, **given):
    options, clock = TransformOptions(**given), LoopClock()
    inputs, outputs = places(source, target, given.get("accept", ""), clock, manifest=False)
    job = TransformJob(options, inputs, outputs, clock)
    if await job.look():
        await job.run(SaidModel(answer), settled(options))
    return job.progress


async def test_all_keys_that_begin_so(server):
    for prefix, names in (
        ("in/", ["a.csv", "b.csv", "b/c.csv"]),
        ("in/b", ["b.csv", "b/c.csv"]),
        ("in", ["in/a.csv", "in/b.csv", "in/b/c.csv", "inside/d"]),
        ("in/a.csv", ["a.csv"]),
    ):
        files = await inputs_at(f"s3://bucket/{prefix}").files()
        assert [each.name for each in files] == names


@pytest.mark.parametrize("url", ["s3://bucket/none/", "s3://bucket/in/c"])
async def test_there_must_be_one(server, url):
    with pytest.raises(StorageFailed, match=f"{url}: there must be a key with this prefix"):
        await inputs_at(url).files()


async def test_from_a_bucket_to_a_bucket(server, tmp_path):
    progress = await transformed(
        "s3://bucket/in/", "s3://bucket/out", accept="text/csv", split_type="Line"
    )
    bucket = server.buckets["bucket"]
    assert {key: bucket[key] for key in bucket if key.startswith("out")} == {
        "out/a.csv.out": b"1\n2\n", "out/b.csv.out": b"4\n", "out/b/c.csv.out": b"3",
    }  # fmt: skip
    assert server.types["out/a.csv.out"] == "text/csv"
    assert progress.count(FileState.DONE) == 3
    assert list(tmp_path.iterdir()) == [], "what was gathered"
    again = await transformed("s3://bucket/in/", "s3://bucket/out/", split_type="Line")
    assert again.count(FileState.SKIPPED) == 3


async def test_a_large_output_is_put_in_parts(server):
    server.buckets["bucket"]["in/a.csv"] = gzip.compress(b"")
    data = bytes(range(256)) * 2**15
    server.buckets["bucket"] = {"in/a": data}
    await transformed("s3://bucket/in/", "s3://bucket/out/", max_payload_mb=0)
    assert server.buckets["bucket"]["out/a.out"] == data
    assert any(asked.startswith("POST") for asked in server.asked)


async def test_an_empty_output(server):
    server.buckets["bucket"] = {"in/a": b""}
    await transformed("s3://bucket/in/", "s3://bucket/out/")
    assert server.buckets["bucket"]["out/a.out"] == b""


async def test_what_failed_is_not_put_there(server, tmp_path):
    def answer(body):
        server.refusal = (500, "InternalError")
        return body

    server.buckets["bucket"] = {"in/a": b"1"}
    progress = await transformed("s3://bucket/in/", "s3://bucket/out/", answer)
    (failed,) = progress.failures
    assert failed.reason.startswith("s3://bucket/out/a.out: ")
    assert "answered 500 InternalError" in failed.reason
    assert "out/a.out" not in server.buckets["bucket"]
    assert list(tmp_path.iterdir()) == []


async def test_from_a_bucket_to_a_folder_and_back(server, tmp_path):
    await transformed("s3://bucket/in/", str(tmp_path / "out"))
    assert (tmp_path / "out" / "b" / "c.csv.out").read_bytes() == b"3"
    await transformed(str(tmp_path / "out"), "s3://bucket/back")
    assert server.buckets["bucket"]["back/b/c.csv.out.out"] == b"3"
    assert Path(tempfile.gettempdir()) == tmp_path


async def test_what_is_no_bucket():
    with pytest.raises(StorageFailed, match="not a bucket's name; the address must be s3://"):
        inputs_at("s3://B/a")
