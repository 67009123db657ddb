"""partway.gateway.storage.model_data.sources: what a text names, and when it is something else."""

from __future__ import annotations

import os

import pytest

from partway.gateway.storage.file_threads import WritingThreads
from partway.gateway.storage.model_data import sources
from partway.gateway.storage.model_data.disk_room import DiskRoom
from partway.gateway.storage.model_data.sources import (
    ArchiveAfar,
    ArchiveInPlace,
    FolderAfar,
    FolderInPlace,
    SourceError,
    download_folder,
    find,
)
from partway.gateway.timing.clock import LoopClock
from tests.gateway.fleet.model_archives import tree
from tests.gateway.object_server import serving_objects

pytestmark = pytest.mark.usefixtures("anyio_backend")


async def test_of_this_machine(tmp_path):
    (tmp_path / "folder.tar.gz").mkdir()  # it is what it is, not what it is called
    assert await find(str(tmp_path / "folder.tar.gz"), LoopClock()) == FolderInPlace(
        tmp_path / "folder.tar.gz"
    )
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(b"1")
    found = await find(str(archive), LoopClock())
    assert isinstance(found, ArchiveInPlace)
    assert found.path == archive
    assert await find(str(archive), LoopClock()) == found


@pytest.mark.parametrize("change", ["content", "time", "file"])
async def test_another_archive_under_the_same_name(tmp_path, change):
    path = tmp_path / "a.tar.gz"
    path.write_bytes(b"1")
    before = await find(str(path), LoopClock())
    if change == "content":
        path.write_bytes(b"12")
    elif change == "time":
        os.utime(path, (1, 1))
    else:
        (tmp_path / "b").write_bytes(b"1")
        (tmp_path / "b").replace(path)
    after = await find(str(path), LoopClock())
    assert isinstance(before, ArchiveInPlace)
    assert isinstance(after, ArchiveInPlace)
    assert before.identity != after.identity


async def test_of_a_bucket(monkeypatch, tmp_path):
    async with serving_objects(monkeypatch) as server:
        bucket = server.buckets["bucket"] = {"p/a.tar.gz": b"1", "p/d/x": b"22", "p/d/": b""}
        archive = await find("s3://bucket/p/a.tar.gz", LoopClock())
        folder = await find("s3://bucket/p/", LoopClock())
        assert isinstance(archive, ArchiveAfar)
        assert isinstance(folder, FolderAfar)
        assert archive.file.size == 1
        assert [name for name, _ in folder.listing] == ["a.tar.gz", "d/x"]
        await download_folder(
            folder, tmp_path / "into", DiskRoom(1 << 20).share(), WritingThreads(LoopClock())
        )
        assert tree(tmp_path / "into") == {"a.tar.gz": b"1", "d/x": b"22"}
        bucket["p/a.tar.gz"] = b"2"
        changed = await find("s3://bucket/p/a.tar.gz", LoopClock())
        changed_folder = await find("s3://bucket/p/", LoopClock())
    assert isinstance(changed, ArchiveAfar)
    assert isinstance(changed_folder, FolderAfar)
    assert changed.identity != archive.identity
    assert changed_folder.identity != folder.identity


async def test_folders_of_a_prefix_are_bounded(monkeypatch):
    """Each key may name 64 of its own."""
    monkeypatch.setattr(sources, "MODEL_DATA_FILES", 10)
    async with serving_objects(monkeypatch) as server:
        server.buckets["bucket"] = {"p/" + "d/" * 10 + "x": b"1", "q/" + "d/" * 11 + "x": b"1"}
        await find("s3://bucket/p/", LoopClock())
        with pytest.raises(SourceError, match="it has more than 10 folders"):
            await find("s3://bucket/q/", LoopClock())
