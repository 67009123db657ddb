"""partway.gateway.batch.output_spool: outputs on disk before they are where they belong."""

from __future__ import annotations

import tempfile
from types import SimpleNamespace

import pytest

from partway.gateway.batch.limits import READ_BYTES
from partway.gateway.batch.output_spool import Gathering, outputs_quota
from partway.gateway.storage import files
from partway.gateway.storage.places.folder_threads import FolderThreads
from partway.gateway.storage.places.place import StorageFailed
from partway.gateway.timing.clock import LoopClock
from partway.protocol.limits import MIB

pytestmark = pytest.mark.usefixtures("anyio_backend")


async def test_all_have_the_quota_and_a_sender_half_of_it(tmp_path):
    quota, threads = outputs_quota(80), FolderThreads(LoopClock(), 4, 30.0)
    of_nobody, of_x, of_y = (Gathering(threads, tmp_path, quota, each) for each in ("", "x", "y"))
    async with of_nobody.file() as nobodys:
        await nobodys.write(bytes(10))
        async with of_x.file() as file:
            await file.write(bytes(40))
            with pytest.raises(StorageFailed) as refused:
                await file.write(b"1")
            assert str(refused.value) == (
                "unfinished outputs of transform jobs of 'x' have 40 bytes on disk; they may have "
                "at most 40 (a part of transform_quota); cut the input into smaller files, or try "
                "again when other outputs are done"
            )
            await nobodys.write(bytes(30))
            refused = pytest.raises(
                StorageFailed, match=r"jobs have 80 bytes .* at most 80 \(transform_quota"
            )
            async with of_y.file() as file:
                with refused:
                    await file.write(b"1")
        async with of_x.file() as file:
            await file.write(bytes(40))


async def test_what_is_gathered_is_there_whole_and_counts(tmp_path):
    quota = outputs_quota(3 * READ_BYTES)
    gathering = Gathering(FolderThreads(LoopClock(), 4, 30.0), tmp_path, quota)
    async with gathering.file() as file:
        await file.write(b"what is dropped")
        await file.restart()
        data = bytes(READ_BYTES) + b"end"
        await file.write(data[:7])
        await file.write(data[7:])
        assert file.size == len(data)
        assert file.whole().read() == file.whole().read() == data
        with pytest.raises(StorageFailed, match="transform_quota"):
            await file.write(bytes(2 * READ_BYTES))
        assert list(tmp_path.iterdir()) == [], "no name that a process that is killed would leave"
    assert quota.used == 0


async def test_what_is_not_to_be_had_counts_no_more(tmp_path):
    quota = outputs_quota(10)

    async def gathered(folder):
        async with Gathering(
            FolderThreads(LoopClock(), 4, 30.0), folder, quota, "x"
        ).file() as file:
            await file.write(b"12345")
            raise ZeroDivisionError

    with pytest.raises(StorageFailed, match=r"No such file or directory"):
        await gathered(tmp_path / "none")
    with pytest.raises(ZeroDivisionError):
        await gathered(tmp_path)
    assert quota.used == 0


async def test_a_disk_that_has_little_left_is_left_to_all_else(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    free = 300 * MIB
    monkeypatch.setattr(files, "disk_usage", lambda _: SimpleNamespace(total=1 << 40, free=free))
    async with Gathering(FolderThreads(LoopClock(), 4, 30.0)).file() as file:
        await file.write(b"1")
        free = 256 * MIB
        with pytest.raises(StorageFailed, match=f"{tmp_path}: its disk has 268435456 bytes free"):
            await file.write(b"2")
        assert file.whole().read() == b"1"
