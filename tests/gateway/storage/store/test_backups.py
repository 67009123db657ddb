"""partway.gateway.storage.store.backups: whole copies, what is refused, and what is kept."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from partway.gateway.storage.store.backups import (
    check_backup,
    copy_stopped,
    restore,
)
from partway.gateway.storage.store.database import STEPS, open_database
from partway.gateway.storage.store.sqlite import SqliteStore
from partway.gateway.storage.store.store import BackupError, Record
from partway.gateway.timing.clock import LoopClock
from tests.disks import small_disk
from tests.gateway.storage.store.whole_backups import whole_backup

pytestmark = pytest.mark.anyio

SMALL, LARGE = Record("model", "small", {"a": 1}), Record("model", "large", {"a": "x" * 500_000})


#: Written by a version that knew schema 1 alone.
ROW_OF_SCHEMA_1 = "INSERT INTO records VALUES ('model', 'a', '{\"x\": 1}', 3851167712)"


async def opened(folder: Path) -> SqliteStore:
    return await SqliteStore.opened(folder / "store.db", LoopClock())


async def found_in(folder: Path) -> tuple[Record, ...]:
    store = await opened(folder)
    try:
        return await store.records("model")
    finally:
        await store.aclose()


async def backup_of(folder: Path, *records: Record) -> Path:
    """A backup of a store that has these records, taken while it is open."""
    folder.mkdir()  # noqa: ASYNC240 (a test's)
    store = await opened(folder)
    await store.write(*records)
    file = folder / "backup"
    file.write_bytes(await whole_backup(store))
    await store.aclose()
    return file


def copied(path: Path) -> Path:
    """A backup of a store that is not open."""
    file = path.with_name("backup")
    file.touch()
    copy_stopped(path, file, file)
    return file


async def test_an_open_store_is_copied_with_what_its_log_has(tmp_path):
    file = await backup_of(tmp_path / "a", SMALL, LARGE)
    assert check_backup(file, file) == 2
    (tmp_path / "b").mkdir()
    assert restore(tmp_path / "b" / "store.db", file) == (2, None)
    assert stat.S_IMODE((tmp_path / "b" / "store.db").stat().st_mode) == 0o600
    assert await found_in(tmp_path / "b") == (LARGE, SMALL)


async def test_a_stopped_store_is_copied_and_not_changed(tmp_path):
    store = await opened(tmp_path)
    await store.write(SMALL)
    killed = {each.name: each.read_bytes() for each in tmp_path.iterdir()}  # as by kill -9
    await store.aclose()
    for name, content in killed.items():
        (tmp_path / name).write_bytes(content)
    file = copied(tmp_path / "store.db")
    assert {name: (tmp_path / name).read_bytes() for name in killed} == killed
    assert check_backup(file, file) == 1


async def test_attachments_are_copied_and_checked(tmp_path):
    file = await backup_of(tmp_path / "a", Record("model", "a", attachment=b"x" * 128_000))
    (tmp_path / "b").mkdir()
    restore(tmp_path / "b" / "store.db", file)
    store = await opened(tmp_path / "b")
    assert await store.attachment("model", "a") == b"x" * 128_000
    await store.aclose()
    file.write_bytes(file.read_bytes().replace(b"x" * 100, b"x" * 99 + b"y", 1))
    with pytest.raises(BackupError, match="the attachment of the model 'a'"):
        check_backup(file, file)


async def test_a_stopped_store_of_schema_1_is_copied_and_restored(tmp_path):
    with closing(open_database(tmp_path / "store.db", STEPS[:1])) as connection:
        connection.execute(ROW_OF_SCHEMA_1)
    file = copied(tmp_path / "store.db")
    (tmp_path / "b").mkdir()
    assert restore(tmp_path / "b" / "store.db", file)[0] == 1
    assert await found_in(tmp_path / "b") == (Record("model", "a", {"x": 1}),)


async def test_a_disk_that_does_not_take_the_backup_of_a_stopped_store(tmp_path):
    store = await opened(tmp_path)
    await store.write(LARGE)
    await store.aclose()
    with small_disk(tmp_path / "disk") as disk:
        file = disk.path / "backup"
        file.touch()
        disk.fill()
        with pytest.raises(BackupError) as refused:
            copy_stopped(tmp_path / "store.db", file, tmp_path / "shown")
        said = f"{tmp_path}/shown: the backup cannot be written: database or disk is full"
        assert str(refused.value) == said


async def test_nothing_is_stored(tmp_path):
    with pytest.raises(BackupError, match="nothing is stored here"):
        copied(tmp_path / "store.db")


@pytest.mark.parametrize("ended", ["in order", "killed"])
async def test_the_store_that_was_there_is_kept(tmp_path, ended):
    file = await backup_of(tmp_path / "a", SMALL)
    (tmp_path / "b").mkdir()
    path = tmp_path / "b" / "store.db"
    store = await opened(tmp_path / "b")
    await store.write(LARGE)
    killed = {each: each.read_bytes() for each in path.parent.iterdir()}
    await store.aclose()
    for each, content in killed.items() if ended == "killed" else ():
        each.write_bytes(content)
    records, aside = restore(path, file)
    assert (records, aside.parent) == (1, path.parent)
    assert await found_in(path.parent) == (SMALL,)
    for suffix in ("", "-wal"):
        if (kept := aside.with_name(aside.name + suffix)).exists():
            kept.replace(path.with_name(path.name + suffix))
    assert await found_in(path.parent) == (LARGE,)


async def test_a_damaged_store_is_kept_with_its_log(tmp_path):
    file = await backup_of(tmp_path / "a", SMALL)
    path = tmp_path / "b" / "store.db"
    path.parent.mkdir()
    path.write_bytes(b"no database" * 1000)
    path.with_name("store.db-wal").write_bytes(b"its log")
    _, aside = restore(path, file)
    assert aside.read_bytes() == b"no database" * 1000
    assert aside.with_name(f"{aside.name}-wal").read_bytes() == b"its log"
    assert await found_in(path.parent) == (SMALL,)


def changed(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(statement)
        connection.commit()


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-5000])


def spoil(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content.replace(b"x" * 100, b"x" * 99 + b"y", 1))


LATER = len(STEPS) + 1
NOW = f"schema {len(STEPS)}"
REFUSED = {
    "a later schema": (
        lambda file: changed(file, f"PRAGMA user_version = {LATER}"),
        f"a later version of Partway has written this (schema {LATER}; this version knows",
    ),
    "no schema": (
        lambda file: changed(file, "PRAGMA user_version = 0"),
        "this file has other tables or triggers than schema 0; it must be a file that partway",
    ),
    "a trigger": (
        lambda file: changed(
            file, "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END"
        ),
        f"this file has other tables or triggers than {NOW}; it must be a file that partway",
    ),
    "another program's": (
        lambda file: changed(file, "PRAGMA application_id = 7"),
        "this file is another database; it must be a file that partway backup has written",
    ),
    "no database": (
        lambda file: file.write_bytes(b"notes\n" * 1000),
        "this file is not a database; it must be a file that partway backup has written",
    ),
    "empty": (
        lambda file: file.write_bytes(b""),
        "this file is another database; it must be a file that partway backup has written",
    ),
    "cut": (cut, "the file is damaged ("),
    "a record that is changed": (spoil, "the file is damaged ("),
}


@pytest.mark.parametrize("fault", REFUSED)
async def test_what_is_refused_changes_nothing(tmp_path, fault):
    spoiling, said = REFUSED[fault]
    file = await backup_of(tmp_path / "a", SMALL, LARGE)
    spoiling(file)
    path = tmp_path / "b" / "store.db"
    path.parent.mkdir()
    store = await opened(path.parent)
    await store.write(SMALL)
    await store.aclose()
    before = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    with pytest.raises(BackupError) as refused:
        restore(path, file)
    assert str(refused.value).startswith(f"{file}: {said}")
    assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == before


@pytest.mark.parametrize("what", ["a link", "a pipe", "a folder", "nothing"])
async def test_a_backup_must_be_a_file(tmp_path, what):
    file = await backup_of(tmp_path / "a", SMALL)
    given = tmp_path / "given"
    match what:
        case "a link":
            given.symlink_to(file)
        case "a pipe":
            os.mkfifo(given)
        case "a folder":
            given.mkdir()
    with pytest.raises(BackupError, match="nothing is restored"):
        restore(tmp_path / "store.db", given)
    assert not (tmp_path / "store.db").exists()
