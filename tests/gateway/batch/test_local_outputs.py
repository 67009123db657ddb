"""transform.local_outputs: outputs in a folder, which appear whole."""

from __future__ import annotations

import os

import pytest

from partway.gateway.batch.local_outputs import LocalOutputs
from partway.gateway.storage import files
from partway.gateway.storage.places.folder_threads import FolderThreads
from partway.gateway.storage.places.place import StorageFailed
from partway.gateway.timing.clock import LoopClock

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


@pytest.fixture
async def threads():
    return FolderThreads(LoopClock(), 4, 30.0)


async def test_an_output_appears_when_it_is_finished(tmp_path, threads):
    outputs = LocalOutputs(tmp_path / "out", threads)
    before = os.umask(0o027)
    try:
        async with outputs.output("x/y.csv") as output:
            await output.write(b"dropped")
            await output.restart()
            await output.write(b"ab")
            await output.write(b"c")
            assert [path.name for path in (tmp_path / "out" / "x").iterdir()] == [".y.csv.out.part"]
            await output.finish()
    finally:
        os.umask(before)
    (path,) = (tmp_path / "out" / "x").iterdir()
    assert (path.name, path.read_bytes()) == ("y.csv.out", b"abc")
    assert path.stat().st_mode & 0o777 == 0o640
    assert await outputs.present(["x/y.csv", "x/z.csv"]) == {"x/y.csv"}


async def test_one_that_is_not_finished_leaves_nothing(tmp_path, threads):
    async with LocalOutputs(tmp_path, threads).output("a") as output:
        await output.write(b"half")
    assert list(tmp_path.iterdir()) == []


async def test_what_was_killed_is_taken_over(tmp_path, threads):
    (tmp_path / ".a.out.part").write_bytes(b"left by a process that was killed")
    async with LocalOutputs(tmp_path, threads).output("a") as output:
        await output.write(b"new")
        await output.finish()
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a.out", b"new")]


async def test_nobody_else_writes_the_same(tmp_path, threads):
    outputs = LocalOutputs(tmp_path, threads)
    async with outputs.output("a") as output:
        with pytest.raises(StorageFailed, match=r"a.out.part: another process writes this output"):
            async with outputs.output("a"):
                pass
        await output.write(b"whole")
        await output.finish()
    assert (tmp_path / "a.out").read_bytes() == b"whole"


async def test_a_lock_on_what_has_appeared_meanwhile_is_none(tmp_path, threads, monkeypatch):
    """Another process may finish between the opening of the hidden file and its lock."""
    opened = []
    before = files.locked

    def locked(part, mode):
        descriptor = before(part, mode)
        if not opened:
            part.rename(tmp_path / "a.out")
        opened.append(part)
        return descriptor

    (tmp_path / ".a.out.part").write_bytes(b"theirs")
    monkeypatch.setattr(files, "locked", locked)
    async with LocalOutputs(tmp_path, threads).output("a") as output:
        await output.write(b"ours")
    assert len(opened) == 2
    assert (tmp_path / "a.out").read_bytes() == b"theirs"


async def test_where_nothing_can_be_written(tmp_path, threads):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageFailed, match=r"file: (File exists|Not a directory)"):
        async with LocalOutputs(tmp_path / "file", threads).output("a"):
            pass
