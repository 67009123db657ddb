"""storage.store.sqlite: what was written is there, whatever becomes of disk and process."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from partway.gateway.storage.store.disk_thread import DiskThread
from partway.gateway.storage.store.limits import MAX_ATTACHMENT_BYTES, STORE_CLOSE_TIMEOUT
from partway.gateway.storage.store.room import ROOM_LIMITS, RoomLimits
from partway.gateway.storage.store.sqlite import SqliteStore
from partway.gateway.storage.store.store import Record, Removal, StoreError, StoreUnavailable
from partway.gateway.timing.clock import LoopClock
from tests.disks import small_disk
from tests.gateway.storage.store.contract import StoreContract
from tests.gateway.storage.store.test_database import VERSION_1, made_by
from tests.gateway.storage.store.test_disk_thread import Gate
from tests.gateway.storage.store.whole_backups import whole_backup
from tests.gateway.streams.fakes import FakeClock

#: Has processes killed that write to a store, and says what they have said and what is found.
KILLED = Path(__file__).with_name("killed_writers.py")

#: Writes to a store whose files may not grow, and says what becomes of it.
LIMITED = Path(__file__).with_name("limited_writer.py")

SMALL, LARGE = Record("model", "small", {"a": 1}), Record("model", "large", {"a": "x" * 500_000})


async def opened(folder: Path, **options: object) -> SqliteStore:
    return await SqliteStore.opened(folder / "store.db", LoopClock(), **options)


class TestSqliteStore(StoreContract):
    async def opened(self, folder: Path, limits: RoomLimits = ROOM_LIMITS) -> SqliteStore:
        return await opened(folder, limits=limits)

    async def test_the_next_one_has_what_was_written(self, tmp_path):
        store = await opened(tmp_path)
        await store.write(SMALL, Record("job", "gone"))
        await store.write(Removal("job", "gone"))
        await store.aclose()
        assert [each.name for each in tmp_path.iterdir()] == ["store.db"]
        again = await opened(tmp_path, limits=RoomLimits(records=1))
        assert await again.records("model") == (SMALL,)
        assert await again.records("job") == ()
        with pytest.raises(StoreError, match="more than 1 objects of kind model"):
            await again.write(LARGE)
        await again.aclose()

    async def test_once_closed_it_takes_and_gives_nothing(self, store):
        await store.aclose()
        with pytest.raises(StoreError, match="the store is closed"):
            await store.write(SMALL)
        with pytest.raises(StoreError, match="the store is closed"):
            await store.records("model")


async def test_a_file_of_version_1_has_its_records(tmp_path):
    made_by(tmp_path / "store.db", VERSION_1)
    store = await opened(tmp_path)
    assert await store.records("model") == (Record("model", "a", {"x": 1}),)
    await store.write(Record("model", "b", attachment=b"bytes"))
    assert await store.attachment("model", "b") == b"bytes"
    await store.aclose()


# --- Its thread ----------------------------------------------------------------------------------


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.open()


async def test_a_slow_disk_holds_nobody_up(tmp_path, gate):
    thread = DiskThread(LoopClock())
    store = await opened(tmp_path, thread=thread)
    hanging = asyncio.create_task(thread.run(gate.pass_through))
    await gate.begun()
    writing = asyncio.create_task(store.write(SMALL))
    for _ in range(1000):
        await asyncio.sleep(0)
    assert not writing.done()
    gate.open()
    await asyncio.gather(hanging, writing)
    assert await store.records("model") == (SMALL,)
    await store.aclose()


async def test_a_change_whose_caller_was_cancelled_is_made_whole_or_not_at_all(tmp_path):
    store = await opened(tmp_path)
    for turns in range(20):
        changes = [Record("model", f"{turns}-{n}", {"a": "x" * 1000}) for n in range(3)]
        writing = asyncio.create_task(store.write(*changes))
        for _ in range(turns):
            await asyncio.sleep(0)
        writing.cancel()
        await asyncio.wait((writing,))
        found = [each.name for each in await store.records("model")]
        assert sum(name.startswith(f"{turns}-") for name in found) in (0, 3)
    await store.aclose()


async def test_its_end_waits_for_what_was_begun(tmp_path, gate):
    thread = DiskThread(LoopClock())
    store = await opened(tmp_path, thread=thread)
    hanging = asyncio.create_task(thread.run(gate.pass_through))
    await gate.begun()
    writing = asyncio.create_task(store.write(SMALL))
    await asyncio.sleep(0)
    closing = asyncio.create_task(store.aclose())
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(hanging, writing, closing)
    again = await opened(tmp_path)
    assert await again.records("model") == (SMALL,)
    await again.aclose()


async def test_one_that_does_not_close_is_left_behind(tmp_path, gate, caplog):
    clock = FakeClock()
    thread = DiskThread(clock)
    store = await opened(tmp_path, thread=thread)
    hanging = asyncio.create_task(thread.run(gate.pass_through))
    await gate.begun()
    closing = asyncio.create_task(store.aclose())
    for _ in range(10):
        await asyncio.sleep(0)
    clock.advance(STORE_CLOSE_TIMEOUT)
    await closing
    assert caplog.messages == [
        f"the store was not closed: its disk does not answer file={tmp_path / 'store.db'}"
    ]
    gate.open()
    await hanging
    await store.aclose()


async def test_whoever_is_cancelled_while_it_opens_leaves_it_closed(tmp_path, gate):
    thread = DiskThread(LoopClock())
    hanging = asyncio.create_task(thread.run(gate.pass_through))
    await gate.begun()
    opening = asyncio.create_task(opened(tmp_path, thread=thread))
    await asyncio.sleep(0)
    opening.cancel()
    gate.open()
    await asyncio.wait((hanging, opening))
    assert opening.cancelled()
    await (await opened(tmp_path)).aclose()


# --- The disk ------------------------------------------------------------------------------------


async def pragma(thread: DiskThread, store: SqliteStore, statement: str) -> object:
    """Have SQLite find a fault in its own way, or no longer."""
    assert store._connection is not None
    connection = store._connection
    return await thread.run(lambda: connection.execute(f"PRAGMA {statement}").fetchall())


@pytest.mark.parametrize(
    ("fault", "end", "said"),
    [
        ("max_page_count = 10", "max_page_count = 1000", "the disk is full; make room there, or"),
        ("query_only = ON", "query_only = OFF", "the file cannot be written to; it and its file"),
    ],
    ids=["full", "read-only"],
)
async def test_a_disk_that_takes_nothing(tmp_path, fault, end, said):
    """Nothing is half made, what there is is read, and it goes on when there is room again."""
    thread = DiskThread(LoopClock())
    store = await opened(tmp_path, thread=thread)
    await store.write(SMALL)
    await pragma(thread, store, fault)
    for _ in range(2):
        with pytest.raises(StoreError) as refused:
            await store.write(
                Record("model", "other", attachment=bytes(MAX_ATTACHMENT_BYTES)),
                *(LARGE, Removal("model", "small")),
            )
        assert await store.attachment("model", "other") == b""
        assert f"{tmp_path / 'store.db'}: {said}" in str(refused.value)
        assert await store.records("model") == (SMALL,)
    await pragma(thread, store, end)
    await store.write(LARGE)
    await store.aclose()
    again = await opened(tmp_path)
    assert await again.records("model") == (LARGE, SMALL)
    await again.aclose()


def test_the_system_stops_a_file_from_growing_in_the_midst_of_a_write(tmp_path):
    """In a process of its own: the limit holds for all files of one."""
    done = subprocess.run(
        [sys.executable, LIMITED, tmp_path / "store.db"], stdout=subprocess.PIPE, check=True
    )
    said = json.loads(done.stdout)
    for each in said["refused"]:
        assert "the disk cannot be read or written; check whether it is full" in each
    assert said == {
        "refused": said["refused"],
        "meanwhile": [["small"]] * len(said["refused"]),
        "log": [0] * len(said["refused"]),
        "afterwards": ["large", "small"],
    }
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def spoilt(path: Path, before: bytes, after: bytes) -> None:
    content = path.read_bytes()
    assert before in content
    path.write_bytes(content.replace(before, after, 1))


async def test_an_attachment_is_read_after_a_restart_and_not_believed_if_it_is_damaged(tmp_path):
    content = b"y" * 100_000
    store = await opened(tmp_path)
    await store.write(Record("model", "a", attachment=content))
    await store.aclose()
    store = await opened(tmp_path)
    assert await store.attachment("model", "a") == content
    await store.aclose()
    spoilt(tmp_path / "store.db", b"y" * 10, b"yyyxyyyyyy")
    store = await opened(tmp_path)
    with pytest.raises(StoreError, match=r"damaged; .* \(the attachment of the model 'a'\)"):
        await store.attachment("model", "a")
    assert await store.records("model") == (Record("model", "a"),)
    await store.aclose()


async def test_the_file_shrinks_when_attachments_go(tmp_path):
    store = await opened(tmp_path)
    await store.write(SMALL)
    names = [str(number) for number in range(50)]
    await store.write(*(Record("job", name, attachment=bytes(100_000)) for name in names))
    assert len(await whole_backup(store)) > 5_000_000
    await store.write(*(Removal("job", name) for name in names))
    assert len(await whole_backup(store)) < 100_000
    await store.aclose()
    assert (tmp_path / "store.db").stat().st_size < 100_000


@pytest.mark.parametrize("other", [b"xxxyxxxxxx", b"xxx\xffxxxxxx", b"xxx\x00xxxxxx"])
async def test_a_record_that_is_not_as_it_was_written_is_not_believed(tmp_path, other):
    """SQLite does not see that: its pages have no checksums."""
    store = await opened(tmp_path)
    await store.write(SMALL, LARGE)
    await store.aclose()
    spoilt(tmp_path / "store.db", b"x" * 10, other)
    before = (tmp_path / "store.db").read_bytes()
    with pytest.raises(StoreError) as refused:
        await opened(tmp_path)
    assert str(refused.value) == (
        f"{tmp_path / 'store.db'}: the file is damaged; put a copy of it back, or move it "
        "and its -wal file away, which removes everything that was created through the API (the "
        "record of the model 'large')"
    )
    assert (tmp_path / "store.db").read_bytes() == before


async def test_two_owners(tmp_path):
    store = await opened(tmp_path)
    with pytest.raises(StoreError, match="another process has the file open"):
        await opened(tmp_path)
    await store.write(SMALL)
    await store.aclose()


# --- A disk that takes nothing when the store is opened ------------------------------------------


async def test_one_that_cannot_be_made_is_empty_and_made_later(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        disk.fill()
        store = await opened(disk.path)
        assert await store.records("model") == ()
        with pytest.raises(StoreUnavailable, match="the disk is full; make room there"):
            await store.write(SMALL)
        with pytest.raises(StoreUnavailable):
            await store.open_for_writing()
        disk.make_room()
        await store.write(SMALL)
        assert await store.records("model") == (SMALL,)
        await store.aclose()


async def test_one_whose_folder_is_not_there_yet(tmp_path):
    folder = tmp_path / "later"
    store = await opened(folder)
    assert await store.records("model") == ()
    with pytest.raises(StoreUnavailable, match="No such file or directory"):
        await store.write(SMALL)
    folder.mkdir()
    await store.write(SMALL)
    await store.aclose()


@pytest.mark.parametrize("log", ["with its log", "closed in order"])
@pytest.mark.parametrize("fault", ["read-only", "no more files"])
async def test_one_that_cannot_be_opened_for_writing_is_read(tmp_path, log, fault):
    with small_disk(tmp_path / "disk") as disk:
        store = await opened(disk.path)
        await store.write(SMALL, LARGE, Record("other", "a", attachment=b"bytes"))
        if log == "with its log":  # as after kill -9: a copy, since a close would put it away
            copies = {each.name: each.read_bytes() for each in disk.path.iterdir()}
        await store.aclose()
        if log == "with its log":
            for name, content in copies.items():
                (disk.path / name).write_bytes(content)
        if fault == "read-only":
            disk.remount("ro")
        else:
            disk.remount("rw,nr_inodes=3" if log == "with its log" else "rw,nr_inodes=2")
        before = {each.name: each.read_bytes() for each in disk.path.iterdir()}
        store = await opened(disk.path)
        for _ in range(2):
            assert await store.records("model") == (LARGE, SMALL)
            assert await store.attachment("other", "a") == b"bytes"
        if fault == "read-only" or log == "closed in order":
            with pytest.raises(StoreUnavailable):
                await store.write(Removal("model", "large"))
            assert {each.name: each.read_bytes() for each in disk.path.iterdir()} == before
        disk.remount("rw,nr_inodes=100")
        await store.write(Removal("model", "large"))
        assert await store.records("model") == (SMALL,)
        await store.aclose()


async def test_one_of_version_1_on_a_read_only_disk_is_read(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        made_by(disk.path / "store.db", VERSION_1)
        disk.remount("ro")
        store = await opened(disk.path)
        assert await store.records("model") == (Record("model", "a", {"x": 1}),)
        assert await store.attachment("model", "a") == b""
        with pytest.raises(StoreUnavailable):
            await store.write(SMALL)
        disk.remount("rw")
        await store.write(SMALL)
        assert len(await store.records("model")) == 2
        await store.aclose()


async def test_one_that_has_changed_since_it_was_read_is_not_written(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        disk.remount("ro")
        late = await opened(disk.path)
        assert await late.records("model") == ()
        disk.remount("rw")
        other = await opened(disk.path)
        await other.write(LARGE)
        await other.aclose()
        with pytest.raises(StoreError, match="another process has changed this file since"):
            await late.write(SMALL)
        await late.aclose()
        again = await opened(disk.path)
        assert await again.records("model") == (LARGE,)
        await again.aclose()


async def test_one_that_is_damaged_on_a_read_only_disk_is_refused(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        (disk.path / "store.db").write_bytes(b"somebody's notes\n" * 100)
        disk.remount("ro")
        with pytest.raises(StoreError, match="this file is not a database") as refused:
            await opened(disk.path)
        assert not isinstance(refused.value, StoreUnavailable)


# --- kill -9 -------------------------------------------------------------------------------------


def test_what_was_written_is_there_after_a_kill_and_nothing_is_there_in_part(tmp_path):
    """Twenty processes on one file, each killed at another moment of what it writes."""
    path = tmp_path / "store.db"
    done = subprocess.run([sys.executable, KILLED, path], stdout=subprocess.PIPE, check=True)
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rounds) == 20
    for each in rounds:
        assert len(each["found"]) == 3
        assert len(set(each["found"])) == 1, "all records of a write are there, or none"
        assert each["found"][0] in (each["said"], each["said"] + 1)

    async def read() -> set[int]:
        store = await opened(tmp_path)
        numbers = {each.body["number"] for each in await store.records("model")}
        await store.aclose()
        return numbers

    assert asyncio.run(read()) == set(rounds[-1]["found"])
