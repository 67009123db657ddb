"""partway.gateway.transform.local_storage: which files there are, and outputs that appear whole."""

from __future__ import annotations

import os
from contextlib import aclosing

import pytest

from partway.gateway.clock import LoopClock
from partway.gateway.transform import local_storage
from partway.gateway.transform.limits import READ_BYTES
from partway.gateway.transform.local_storage import (
    FileThreads,
    LocalInputs,
    LocalOutputs,
    PartFile,
)
from partway.gateway.transform.storage import StorageFailed

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


@pytest.fixture
async def threads():
    return FileThreads(LoopClock())


def made(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


async def names(inputs):
    return [each.name for each in await inputs.files()]


async def content(inputs, file):
    async with aclosing(inputs.pieces(file)) as pieces:
        return b"".join([piece async for piece in pieces])


# --- Input ----------------------------------------------------------------------------------------


async def test_a_file(tmp_path, threads):
    made(tmp_path, "a.csv", "a.csv2")
    inputs = LocalInputs(tmp_path / "a.csv", threads)
    (file,) = await inputs.files()
    assert (file.name, file.size) == ("a.csv", 5)
    assert await content(inputs, file) == b"a.csv"


async def test_a_folder_with_all_that_is_below_in_order(tmp_path, threads):
    made(tmp_path, "b/z", "b/a", "a", "c/d/e", ".hidden", ".git/config", "b/.part")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    found = await names(LocalInputs(tmp_path, threads))
    assert found == ["a", "b/a", "b/z", "c/d/e", "link"]
    assert await names(LocalInputs(tmp_path, threads, tmp_path / "b")) == ["a", "c/d/e", "link"]


async def test_what_begins_alike(tmp_path, threads):
    made(tmp_path, "part-1", "part-2/a", "other", "part")
    found = await names(LocalInputs(tmp_path / "part-", threads))
    assert found == ["part-1", "part-2/a"]


async def test_there_must_be_one(tmp_path, threads):
    (tmp_path / "folder").mkdir()
    for name in ("nothing", "folder", "nothing/below"):
        with pytest.raises(StorageFailed, match=r"there must be a file|No such file"):
            await LocalInputs(tmp_path / name, threads).files()


async def test_no_more_than_a_job_takes(tmp_path, threads, monkeypatch):
    monkeypatch.setattr(local_storage, "MAX_FILES", 2)
    made(tmp_path, "a", "b")
    assert len(await LocalInputs(tmp_path, threads).files()) == 2
    made(tmp_path, "c")
    with pytest.raises(StorageFailed, match="has more than 2 files; name a folder with fewer"):
        await LocalInputs(tmp_path, threads).files()


async def test_a_long_file_comes_in_pieces(tmp_path, threads):
    data = bytes(range(256)) * (2 * READ_BYTES // 256 + 1)
    (tmp_path / "f").write_bytes(data)
    inputs = LocalInputs(tmp_path, threads)
    (file,) = await inputs.files()
    assert [len(each) async for each in inputs.pieces(file)] == [READ_BYTES, READ_BYTES, 256]
    assert await content(inputs, file) == data


async def test_a_file_that_changes_is_not_read_half_of_each(tmp_path, threads):
    path = tmp_path / "f"
    path.write_bytes(bytes(2 * READ_BYTES))
    inputs = LocalInputs(tmp_path, threads)
    (file,) = await inputs.files()
    async with aclosing(inputs.pieces(file)) as pieces:
        await anext(pieces)
        with path.open("ab") as more:
            more.write(b"more")
            os.utime(more.fileno(), ns=(1, 1))
        with pytest.raises(StorageFailed, match="it has changed since it was looked up; begin"):
            [piece async for piece in pieces]
    path.unlink()
    with pytest.raises(StorageFailed, match="No such file or directory"):
        await content(inputs, file)


# --- Output ---------------------------------------------------------------------------------------


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
    before = local_storage.locked

    def locked(part, mode):
        descriptor = before(part, mode)
        if not opened:
            part.rename(tmp_path / "a.out")
        opened.append(part)
        return descriptor

    (tmp_path / ".a.out.part").write_bytes(b"theirs")
    monkeypatch.setattr(local_storage, "locked", locked)
    part = PartFile(tmp_path / "a.out", threads)
    await part.write(b"ours")
    part.leave()
    assert len(opened) == 2
    assert (tmp_path / "a.out").read_bytes() == b"theirs"


async def test_where_nothing_can_be_written(tmp_path, threads):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageFailed, match=r"file: (File exists|Not a directory)"):
        async with LocalOutputs(tmp_path / "file", threads).output("a"):
            pass
