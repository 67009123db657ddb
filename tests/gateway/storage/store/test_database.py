"""storage.store.database: private, whole, of the right schema, and nobody else's."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from partway.gateway.storage.store import database
from partway.gateway.storage.store.database import APPLICATION_ID, STEPS, open_database, transaction
from partway.gateway.storage.store.store import StoreError
from tests.disks import small_disk

#: A file of version 1, as the first version of Partway that had one made it.
VERSION_1 = f"""
    PRAGMA journal_mode = WAL;
    CREATE TABLE records (kind TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL,
        checksum INTEGER NOT NULL, PRIMARY KEY (kind, name));
    INSERT INTO records VALUES ('model', 'a', '{{"x": 1}}', 3851167712);
    PRAGMA application_id = {0x50727477};
    PRAGMA user_version = 1;
"""

#: A step that nobody has taken yet.
NEXT = (
    "ALTER TABLE records ADD COLUMN since REAL NOT NULL DEFAULT 0",
    "UPDATE records SET since = 5",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def made_by(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    path.chmod(0o600)


def rows(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    return connection.execute("SELECT * FROM records ORDER BY kind, name").fetchall()


def value(connection: sqlite3.Connection, pragma: str) -> object:
    return connection.execute(f"PRAGMA {pragma}").fetchone()[0]


def refused(path: Path, **options: object) -> str:
    """What is said of a file that is refused, and left as it is."""
    content = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreError) as caught:
        open_database(path, **options)
    if content is not None:
        assert path.read_bytes() == content
    message = str(caught.value)
    assert message.startswith(f"{path}")
    return message.removeprefix(str(path))


# --- As it must be -------------------------------------------------------------------------------


def test_what_is_written_is_on_the_disk_before_anybody_hears_of_it(path):
    with closing(open_database(path)) as connection:
        # In SQLite's documentation 2 is FULL: the log is synchronised with each transaction.
        assert value(connection, "synchronous") == 2
        assert value(connection, "journal_mode") == "wal"
        assert value(connection, "fullfsync") == 1


def test_it_and_what_is_beside_it_is_its_owners_alone(path):
    before = os.umask(0)
    try:
        with closing(open_database(path)) as connection:
            with transaction(connection):
                connection.execute("INSERT INTO records VALUES ('a', 'b', '{}', 1)")
            found = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert found == {"store.db": 0o600, "store.db-wal": 0o600}
    assert [each.name for each in path.parent.iterdir()] == ["store.db"]


def test_one_that_others_could_read_is_taken_from_them(path, caplog):
    made_by(path, VERSION_1)
    path.chmod(0o644)
    with closing(open_database(path)) as connection:
        assert len(rows(connection)) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (line,) = caplog.messages
    assert line == f"other users could access the store file={path} how=read"


def test_what_is_removed_leaves_no_byte(path):
    with closing(open_database(path)) as connection:
        for text in ("secret" * 5000, ""):
            with transaction(connection):
                connection.execute(
                    "INSERT OR REPLACE INTO records VALUES ('a', 'b', ?, 1)", (text,)
                )
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"secret" not in path.read_bytes()


def twice(connection: sqlite3.Connection) -> None:
    with transaction(connection):
        for _ in range(2):  # its key is there then
            connection.execute("INSERT INTO records VALUES ('a', 'b', '{}', 1)")


def test_a_transaction_is_made_whole_or_not_at_all(path):
    with closing(open_database(path)) as connection:
        with pytest.raises(sqlite3.IntegrityError):
            twice(connection)
        assert rows(connection) == []
        # Nothing of it is left in the log, where a process after a kill -9 would find it.
        assert path.with_name("store.db-wal").stat().st_size == 0


# --- Schemas -------------------------------------------------------------------------------------


def test_a_file_of_version_1_is_read(path):
    made_by(path, VERSION_1)
    with closing(open_database(path)) as connection:
        assert rows(connection) == [("model", "a", '{"x": 1}', 3851167712)]
        assert value(connection, "user_version") == len(STEPS)
        assert value(connection, "auto_vacuum") == 1


def test_a_new_file_has_the_schema_that_an_older_one_is_brought_to(tmp_path):
    """Whichever way it came there."""
    made_by(tmp_path / "older.db", VERSION_1)
    schemas = []
    for name in ("older.db", "new.db"):
        with closing(open_database(tmp_path / name, (*STEPS, NEXT))) as connection:
            assert value(connection, "user_version") == len(STEPS) + 1
            assert value(connection, "application_id") == APPLICATION_ID
            schemas.append(connection.execute("PRAGMA table_info(records)").fetchall())
    assert schemas[0] == schemas[1]


def test_an_older_one_is_brought_up_to_date_and_keeps_what_it_has(path, caplog):
    caplog.set_level("INFO")
    made_by(path, VERSION_1)
    steps = (*STEPS, NEXT)
    for _ in range(2):  # once
        with closing(open_database(path, steps)) as connection:
            assert rows(connection) == [("model", "a", '{"x": 1}', 3851167712, 5.0)]
    assert caplog.messages == [f"the store was upgraded file={path} schema={len(steps)}"]


def test_one_that_the_disk_has_no_room_to_copy_is_opened_and_does_not_shrink(tmp_path, caplog):
    with small_disk(tmp_path / "disk") as disk:
        path = disk.path / "store.db"
        made_by(path, VERSION_1)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")  # no log that fills the disk itself
            connection.execute("INSERT INTO records VALUES ('a', 'b', ?, 1)", ("x" * 2_500_000,))
            connection.commit()
        with closing(open_database(path)) as connection:
            assert value(connection, "user_version") == len(STEPS)
            assert value(connection, "auto_vacuum") == 0
            assert path.with_name("store.db-wal").stat().st_size == 0
            with transaction(connection):
                connection.execute("INSERT INTO records VALUES ('a', 'c', '{}', 1)")
            assert len(rows(connection)) == 3
    (line,) = caplog.messages
    assert line.startswith(f"the store's file could not be shrunk file={path} reason=")


def test_a_step_that_fails_changes_nothing(path):
    made_by(path, VERSION_1)
    assert "no such table: recods" in refused(path, steps=(*STEPS, (*NEXT, "DELETE FROM recods")))
    with closing(open_database(path)) as connection:
        assert rows(connection) == [("model", "a", '{"x": 1}', 3851167712)]


def test_a_newer_one_is_refused(path):
    made_by(path, VERSION_1 + "PRAGMA user_version = 7;")
    assert refused(path) == (
        f": a later version of Partway has written this (schema 7; this version knows schemas "
        f"up to {len(STEPS)}); start that version, or name another folder with --data-dir DIR"
    )


# --- What is no such file ------------------------------------------------------------------------


def test_no_database(path):
    path.write_bytes(b"# my notes\n" * 1000)
    assert refused(path) == (
        ": this file is not a database; it must be one that Partway has made; move it away, or "
        "name another folder with --data-dir DIR (SQLITE_NOTADB)"
    )


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TABLE a (b)",
        "PRAGMA user_version = 1",
        "PRAGMA application_id = 7; CREATE TABLE a (b)",
    ],
)
def test_another_programs_database(path, script):
    made_by(path, script)
    assert "this is another program's database; it must be one" in refused(path)


def test_an_empty_file_is_a_new_one(path):
    path.touch()
    with closing(open_database(path)) as connection:
        assert rows(connection) == []


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_log_without_its_database_is_kept(path, is_empty):
    beside = path.with_name("store.db-wal")
    beside.write_bytes(b"all that there is")
    if is_empty:
        path.touch()
    assert "put store.db back, or move the log away too" in refused(path)
    assert beside.read_bytes() == b"all that there is"
    assert path.exists() == is_empty


def test_a_pipe_a_folder_or_a_link(path):
    os.mkfifo(path)
    assert "this must be a regular file; name another folder" in refused(path)
    path.unlink()
    path.mkdir()
    assert "this must be a regular file" in refused(path)
    path.rmdir()
    path.symlink_to(path.with_name("elsewhere.db"))
    assert "this must be a regular file" in refused(path)
    assert not path.with_name("elsewhere.db").exists()


def test_a_folder_that_is_not_there(path):
    assert "the store cannot be kept here: No such file" in refused(path.parent / "no" / "s.db")


def test_a_damaged_page(path):
    made_by(path, VERSION_1)
    with closing(open_database(path)) as connection, transaction(connection):
        connection.executemany(
            "INSERT INTO records VALUES ('a', ?, ?, 1)", ((str(n), "x" * 500) for n in range(200))
        )
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[16:18], "big")  # of a page (the file format's §1.3)
    for page in range(2, len(content) // size, 3):
        content[page * size : page * size + 64] = os.urandom(64)
    path.write_bytes(content)
    assert (
        ": the file is damaged; put a copy of it back, or move it and its -wal file away, "
        "which removes everything that was created through the API (" in refused(path)
    )


def test_one_that_is_cut(path):
    made_by(path, VERSION_1)
    path.write_bytes(path.read_bytes()[:-4096])
    assert "the file is damaged; put a copy of it back" in refused(path)


def test_a_file_that_may_not_be_written(path, monkeypatch):
    """As on a file system that is read-only; root, by whom tests may run, may write all others."""
    made_by(path, VERSION_1)
    monkeypatch.setattr(database.os, "access", lambda *_: False)
    assert refused(path) == (
        ": the file cannot be written to; it and its file system must be writable, or name another "
        "folder with --data-dir DIR"
    )


# --- One owner -----------------------------------------------------------------------------------


BUSY = (
    ": another process has the file open (a gateway, or the sqlite3 shell); end it, or name "
    "another folder with --data-dir DIR (SQLITE_BUSY)"
)

OTHER = """
import sys
from pathlib import Path
from partway.gateway.storage.store.database import open_database
open_database(Path(sys.argv[1]))
"""


def test_one_that_another_process_has_open(path):
    with closing(open_database(path)):
        other = subprocess.run(
            [sys.executable, "-c", OTHER, path], stderr=subprocess.PIPE, check=False
        )
    assert other.returncode == 1
    assert f"{path}{BUSY}" in other.stderr.decode()


def test_one_that_this_process_has_open(path):
    with closing(open_database(path)) as connection:
        # Not by refused(), which reads the file: to close it then would give up the lock.
        with pytest.raises(StoreError) as caught:
            open_database(path)
        with transaction(connection):
            connection.execute("INSERT INTO records VALUES ('a', 'b', '{}', 1)")
    assert str(caught.value) == f"{path}{BUSY}"


def test_one_that_somebody_looks_at(path):
    made_by(path, VERSION_1)
    with closing(sqlite3.connect(path)) as shell:
        assert shell.execute("SELECT name FROM records").fetchone() == ("a",)
        with pytest.raises(StoreError) as caught:
            open_database(path)
    assert str(caught.value) == f"{path}{BUSY}"
    open_database(path).close()


KILLED = """
import os, signal, sys
from pathlib import Path
from partway.gateway.storage.store.database import open_database, transaction
connection = open_database(Path(sys.argv[1]))
with transaction(connection):
    connection.execute("INSERT INTO records VALUES ('a', 'b', '{}', 1)")
connection.execute("BEGIN IMMEDIATE")
connection.execute("INSERT INTO records VALUES ('a', 'c', '{}', 1)")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_log_that_a_killed_process_has_left_is_taken_in(path):
    subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert path.with_name("store.db-wal").stat().st_size > 0
    with closing(open_database(path)) as connection:
        assert rows(connection) == [("a", "b", "{}", 1)]
