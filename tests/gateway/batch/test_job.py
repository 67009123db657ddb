"""partway.gateway.batch.job: many files, of which some have their output already."""

from __future__ import annotations

import asyncio
import errno
import os

import pytest

from partway.gateway.batch.model import AskFailed
from partway.gateway.batch.results import FileState
from tests.gateway.batch.jobs import SaidModel, transformed
from tests.gateway.fleet.waiting import soon

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

FILES = {f"{number:02}/part": b"%d" % number for number in range(40)}


async def test_a_second_run_does_only_what_is_missing(tmp_path):
    bad = {b"7", b"31"}

    def answer(body):
        if body in bad:
            raise AskFailed("the container answered 500: no")
        return body

    done = await transformed(tmp_path, FILES, SaidModel(answer), max_concurrent=5)
    assert done.progress.count(FileState.DONE) == 38
    assert [each.name for each in done.progress.failures] == ["07/part", "31/part"]
    bad.clear()
    again = await transformed(tmp_path, {}, SaidModel(answer), max_concurrent=5)
    assert sorted(again.model.asked) == [b"31", b"7"]
    assert again.progress.count(FileState.SKIPPED) == 38
    assert again.outputs == {f"{name}.out": data for name, data in FILES.items()}
    last = await transformed(tmp_path, {}, SaidModel(answer))
    assert last.model.asked == []


async def test_files_are_asked_for_together(tmp_path):
    together = asyncio.Barrier(5)

    async def answer(body):
        await soon(together.wait())
        return body

    done = await soon(transformed(tmp_path, FILES, SaidModel(answer), max_concurrent=5))
    assert len(done.outputs) == 40


async def test_what_cannot_be_read_fails_by_itself(tmp_path, monkeypatch):
    before = os.pread

    def read(descriptor, size, at):
        if os.fstat(descriptor).st_ino == (tmp_path / "in/03/part").stat().st_ino:
            raise OSError(errno.EIO, "Input/output error")
        return before(descriptor, size, at)

    monkeypatch.setattr(os, "pread", read)
    done = await transformed(tmp_path, FILES)
    assert done.reason("03/part") == f"{tmp_path}/in/03/part: Input/output error"
    assert len(done.outputs) == 39


async def test_a_full_disk_fails_what_it_does_not_take(tmp_path, monkeypatch):
    before = os.write

    def write(descriptor, data):
        if bytes(data) == b"3":
            raise OSError(errno.ENOSPC, "No space left on device")
        return before(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    done = await transformed(tmp_path, FILES)
    assert done.reason("03/part") == f"{tmp_path}/out/03/part.out: No space left on device"
    assert len(done.outputs) == 39, "and nothing half"


async def test_a_job_that_is_broken_off_leaves_what_is_whole(tmp_path):
    asked = asyncio.Event()

    async def answer(body):
        if body == b"20":
            asked.set()
            await asyncio.Event().wait()
        return body

    task = asyncio.create_task(transformed(tmp_path, FILES, SaidModel(answer)))
    await soon(asked.wait())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(task)
    left = {path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*.out*")}
    assert {str(each) for each in left} == {f"{number:02}/part.out" for number in range(20)}
