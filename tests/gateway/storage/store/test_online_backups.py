"""storage.store.backups of a store that is open: changes go on, and nothing is left on its disk."""

from __future__ import annotations

import asyncio
import stat
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from partway.gateway.storage.store import backups
from partway.gateway.storage.store.backups import check_backup
from partway.gateway.storage.store.disk_thread import DiskThread
from partway.gateway.storage.store.limits import STORE_BACKUP_TIMEOUT
from partway.gateway.storage.store.sqlite import SqliteStore
from partway.gateway.storage.store.store import BackupError, Record, Removal, StoreError
from partway.gateway.timing.clock import LoopClock
from tests.disks import small_disk
from tests.gateway.fleet.waiting import eventually
from tests.gateway.storage.store.whole_backups import whole_backup
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.anyio

#: Nothing here takes this long, in seconds.
PATIENCE = 30

#: 3 MiB: several steps.
RECORDS = tuple(Record("model", f"{n:02}", attachment=bytes([n]) * 120_000) for n in range(26))


class SteppedThread(DiskThread):
    """Stops before each step of a backup until it may be taken."""

    def __init__(self) -> None:
        super().__init__(LoopClock())
        self.steps = 0
        self._may_step = threading.Semaphore(0)

    def do_waiting(self) -> None:
        self.steps += 1
        assert self._may_step.acquire(timeout=PATIENCE)
        super().do_waiting()

    def let_step(self, times: int = 1) -> None:
        self._may_step.release(times)


@pytest.fixture
async def thread() -> AsyncIterator[SteppedThread]:
    thread = SteppedThread()
    yield thread
    thread.let_step(1000)


async def opened(folder: Path, thread: DiskThread, clock: object = None) -> SqliteStore:
    store = await SqliteStore.opened(folder / "store.db", clock or LoopClock(), thread=thread)
    await store.write(*RECORDS)
    return store


async def stepped(thread: SteppedThread, steps: int = 1) -> None:
    await eventually(lambda: thread.steps >= steps)


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


async def test_changes_are_made_while_a_backup_is_copied_and_are_in_it(tmp_path, thread):
    store = await opened(tmp_path, thread)
    copying = asyncio.create_task(whole_backup(store))
    await stepped(thread)
    mode = (tmp_path / "store.db-copy").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600
    changing = asyncio.create_task(
        store.write(Removal("model", "00"), Record("model", "new", {"a": "x" * 100_000}))
    )
    await turns()
    thread.let_step()
    await changing
    assert not copying.done()
    another = asyncio.create_task(whole_backup(store))
    await turns()
    thread.let_step()
    await stepped(thread, 3)
    thread.let_step(1000)
    with pytest.raises(BackupError, match="a backup is being written; try again"):
        await another
    file = tmp_path / "backup"
    file.write_bytes(await copying)
    assert check_backup(file, file) == len(RECORDS)
    assert names(tmp_path) == {"store.db", "store.db-wal", "backup"}
    await store.aclose()
    (tmp_path / "b").mkdir()
    backups.restore(tmp_path / "b" / "store.db", file)
    again = await SqliteStore.opened(tmp_path / "b" / "store.db", LoopClock())
    found = {each.name for each in await again.records("model")}
    assert found == {each.name for each in RECORDS} - {"00"} | {"new"}
    assert await again.attachment("model", "07") == RECORDS[7].attachment
    await again.aclose()


async def test_many_changes_in_the_midst_of_a_backup_leave_it_whole(tmp_path):
    store = await opened(tmp_path, DiskThread(LoopClock()))
    file = tmp_path / "backup"
    copying = asyncio.create_task(whole_backup(store))
    number = 0
    while not copying.done():
        name = f"{number % 26:02}"
        change = Removal("model", name) if number % 3 else Record("model", name, {"n": number})
        await store.write(change)
        number += 1
    file.write_bytes(await copying)
    check_backup(file, file)
    await store.aclose()


@pytest.mark.parametrize("how", ["its caller leaves", "the store closes", "the disk is slow"])
async def test_a_backup_that_is_broken_off_leaves_nothing(tmp_path, thread, how):
    clock = FakeClock()
    store = await opened(tmp_path, thread, clock)
    copying = asyncio.create_task(whole_backup(store))
    await stepped(thread)
    if how == "its caller leaves":
        copying.cancel()
    elif how == "the disk is slow":
        clock.advance(STORE_BACKUP_TIMEOUT)
    else:
        closing = asyncio.create_task(store.aclose())
    await turns()
    thread.let_step()
    said = {"its caller leaves": "", "the store closes": "the store is closed"}
    with pytest.raises((StoreError, asyncio.CancelledError)) as ended:
        await copying
    assert said.get(how, "no backup could be written within 120 s") in str(ended.value)
    await eventually(lambda: not (tmp_path / "store.db-copy").exists())
    assert thread.steps == 1
    if how == "the store closes":
        await closing
        return
    thread.let_step(1000)
    await store.write(Removal("model", "00"))
    assert len(await whole_backup(store)) > 2_500_000
    await store.aclose()


@pytest.mark.parametrize("seen", ["before", "in its midst"])
async def test_a_disk_without_room_for_a_backup(tmp_path, monkeypatch, seen):
    with small_disk(tmp_path / "disk") as disk:
        store = await SqliteStore.opened(disk.path / "store.db", LoopClock())
        await store.write(*RECORDS[:20])
        if seen == "in its midst":
            monkeypatch.setattr(backups, "free_and_reserved", lambda _: (1 << 40, 0))
        for _ in range(2):
            with pytest.raises((BackupError, StoreError)) as refused:
                await whole_backup(store)
            said = "make room, or stop" if seen == "before" else "the disk is full; make room there"
            assert str(disk.path) in str(refused.value)
            assert said in str(refused.value)
            assert names(disk.path) == {"store.db", "store.db-wal"}
        await store.write(Removal("model", "00"))
        await store.aclose()


async def test_a_backup_in_part_that_a_killed_gateway_has_left_goes(tmp_path):
    left = tmp_path / "store.db-copy"
    left.write_bytes(b"secrets")
    store = await SqliteStore.opened(tmp_path / "store.db", LoopClock())
    assert not left.exists()
    left.write_bytes(b"secrets")
    await store.write(RECORDS[0])
    assert b"secrets" not in await whole_backup(store)
    assert not left.exists()
    await store.aclose()
