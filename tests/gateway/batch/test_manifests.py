"""partway.gateway.batch.manifests: files by name, here and at s3://."""

from __future__ import annotations

import json
from contextlib import aclosing

import pytest

from partway.gateway.batch.command_locations import places
from partway.gateway.batch.manifests import ManifestError, read_manifest
from partway.gateway.storage.places.place import StorageFailed
from partway.gateway.timing.clock import LoopClock
from tests.gateway.object_server import serving_objects

pytestmark = pytest.mark.usefixtures("anyio_backend")


def inputs(source, target="/nowhere"):
    return places(str(source), target, "", LoopClock(), manifest=True)[0]


async def content(inputs):
    found = {}
    for file in await inputs.files():
        async with aclosing(inputs.pieces(file)) as pieces:
            found[file.name] = b"".join([piece async for piece in pieces])
    return found


def test_a_manifest():
    assert read_manifest(b'[{"prefix": "s3://b/p/"}, "a", "b/c"]') == ("s3://b/p/", ["a", "b/c"])
    assert read_manifest(b'[{"prefix": "s3://b/p"}]') == ("s3://b/p", [])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", 'it must be [{"prefix": "s3://BUCKET/PREFIX"}, "KEY", …], in JSON ('),
        (b"{}", 'it must be [{"prefix"'),
        (b"[]", 'it must be [{"prefix"'),
        (b'["a"]', "its first element has no prefix"),
        (b'[{"prefix": 1}]', "its first element has no prefix"),
        (b'[{"prefix": "a"}, "b", 7]', "its element 2 is not a string"),
        (b'[{"prefix": "a"}, "b", "c", "b"]', "the entry 'b' occurs 2 times; it must occur once"),
        (
            b'[{"prefix": "s3://own"}, "ers/secret"]',
            "its prefix is 's3://own'; it must have a / after the bucket's name",
        ),
        (b"[" * 100_000, "in JSON ("),
    ],
)
def test_what_is_none(data, said):
    with pytest.raises(ManifestError) as caught:
        read_manifest(data)
    assert said in str(caught.value)


async def test_files_of_this_machine(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / f"part-{name}").write_text(name)
    manifest = tmp_path / "m.manifest"
    manifest.write_text(json.dumps([{"prefix": f"{tmp_path}/part-"}, "c", "a"]))
    assert await content(inputs(manifest, str(tmp_path))) == {"c": b"c", "a": b"a"}
    manifest.write_text(json.dumps([{"prefix": f"{tmp_path}/part-"}, "d"]))
    with pytest.raises(StorageFailed, match="part-d: No such file or directory"):
        await inputs(manifest).files()


@pytest.mark.parametrize("entry", ["../a", "/a", "", "a//b", "a/./b"])
async def test_an_entry_that_leads_elsewhere(tmp_path, entry):
    manifest = tmp_path / "m.manifest"
    manifest.write_text(json.dumps([{"prefix": f"{tmp_path}/"}, entry]))
    with pytest.raises(StorageFailed, match=r"no part of it may be empty, . or .."):
        await inputs(manifest).files()


async def test_it_must_be_one_file(tmp_path):
    (tmp_path / "a").write_text("[]")
    with pytest.raises(StorageFailed, match=r"it must be \["):
        await inputs(tmp_path).files()
    (tmp_path / "b").write_text("[]")
    with pytest.raises(StorageFailed, match="it must be one file of at most 16777216 bytes"):
        await inputs(tmp_path).files()


async def test_files_of_a_bucket(monkeypatch):
    async with serving_objects(monkeypatch) as server:
        manifest = json.dumps([{"prefix": "s3://data/in/x"}, "b", "a/c"]).encode()
        server.buckets["lists"] = {"m": manifest}
        server.buckets["data"] = {"in/xb": b"1", "in/xa/c": b"2", "in/xd": b"3"}
        assert await content(inputs("s3://lists/m")) == {"b": b"1", "a/c": b"2"}
        del server.buckets["data"]["in/xb"]
        with pytest.raises(
            StorageFailed, match=r"s3://lists/m: s3://data/in/xb: the bucket has no"
        ):
            await inputs("s3://lists/m").files()
