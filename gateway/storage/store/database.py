"""The store's database file: private, intact, and with the schema that this version knows."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from partway.gateway.storage.files import others_may
from partway.gateway.storage.store.limits import STORE_LOG_BYTES
from partway.gateway.storage.store.sqlite_errors import (
    not_ours,
    said,
    said_by_sqlite,
    said_by_system,
    too_new,
)
from partway.gateway.storage.store.store import StoreError
from partway.log_lines import LogLine

log = logging.getLogger("partway.store")

#: Schema migrations: the statements from each version to the next; the first makes version 1.
Steps: TypeAlias = Sequence[Sequence[str]]

STEPS: Final[Steps] = (
    (
        """
        CREATE TABLE records (
            kind TEXT NOT NULL,
            name TEXT NOT NULL,
            body TEXT NOT NULL,
            checksum INTEGER NOT NULL,
            PRIMARY KEY (kind, name)
        )
        """,
    ),
    (
        """
        CREATE TABLE attachments (
            kind TEXT NOT NULL,
            name TEXT NOT NULL,
            content BLOB NOT NULL,
            checksum INTEGER NOT NULL,
            PRIMARY KEY (kind, name)
        )
        """,
    ),
)

#: Each transaction frees empty pages (SQLite's ``auto_vacuum``), so that the file and its backups
#: shrink when attachments are removed.
_FULL: Final = 1

#: Marks the file as a store, among other programs' databases: "Prtw".
APPLICATION_ID: Final = 0x50727477

#: Suffixes of SQLite's files beside a database: its log, the log's index, and the journal that
#: exists while the database is made.
_BESIDE: Final = ("-wal", "-shm", "-journal")


def open_database(path: Path, steps: Steps = STEPS) -> sqlite3.Connection:
    """Open a store's file, make it if it is missing, and migrate it to the latest schema.

    Nobody else can open the file until the connection is closed. A file that is refused is not
    moved.

    Args:
        path: the path of the file, in an existing folder.

    Returns:
        A connection, for this thread alone; its transactions begin and end by statements.

    Raises:
        StoreError: the file belongs to another program or a later version, is damaged, is open
            elsewhere, or cannot be read and written. The message gives the remedy.
    """
    try:
        _make_private(path)
    except OSError as error:
        raise said_by_system(path, error) from None
    try:
        # SQLite would make a file that is missing by now, readable for all, if it had only a path.
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw", timeout=0, isolation_level=None, uri=True
        )
    except sqlite3.Error as error:
        raise said_by_sqlite(path, error) from None
    with _closed_on_error(connection, path):
        _prepare(connection, path, steps)
    return connection


def open_for_reading(path: Path, steps: Steps = STEPS) -> sqlite3.Connection | None:
    """Open a store's file on a disk that takes no writes, without a write or a lock.

    The schema may be an older one: each has the same table of records. Only the owner of the folder
    may call this: writes of other processes are not noticed.

    Returns:
        A connection for this thread alone; None if the store is empty.

    Raises:
        StoreError: as :func:`open_database`, except for faults that only matter to writes.
    """
    try:
        has_content = bool(_size_of(path))
        has_log = bool(_size_of(path.with_name(path.name + "-wal")))
    except OSError as error:
        raise said_by_system(path, error) from None
    if not has_content:
        return None
    # SQLite reads a log with a lock, or with an index in memory, which the VFS without locks uses.
    # It makes a missing log, unless the file is declared immutable.
    how = "vfs=unix-none" if has_log else "immutable=1"
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro&{how}", isolation_level=None, uri=True
        )
    except sqlite3.Error as error:
        raise said_by_sqlite(path, error) from None
    with _closed_on_error(connection, path):
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        version = _version(connection, path, len(steps))
        _check_whole(connection, path)
    if version:
        return connection
    connection.close()
    return None


@contextmanager
def _closed_on_error(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Prepare a connection, and close it if the block fails.

    Raises:
        StoreError: SQLite's error, in words.
    """
    # A damaged value may not be valid text; the checksum finds it.
    connection.text_factory = lambda data: data.decode(errors="replace")
    try:
        yield
    except sqlite3.Error as error:
        connection.close()
        raise said_by_sqlite(path, error) from None
    except BaseException:
        connection.close()
        raise


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Make all changes of the block, or no change.

    Raises:
        sqlite3.Error: no change is made.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # after some errors SQLite has already rolled back
            connection.execute("ROLLBACK")
        # A failed commit may be complete in the log, and would take effect after a kill -9. The
        # checkpoint empties the log.
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        raise


def _make_private(path: Path) -> None:
    """Make the file if it is missing, and remove other users' access to it and its companions.

    An existing file is not opened here: closing it would release this process's locks on it.
    """
    content = _seen_to(path)
    log_file, *others = (path.with_name(path.name + suffix) for suffix in _BESIDE)
    for each in others:
        _seen_to(each)
    if _seen_to(log_file) and not content:  # SQLite would remove it
        raise StoreError(
            f"{log_file}: this is the log of a missing database; put {path.name} back, or move "
            "the log away too, which removes everything that was created through the API"
        )
    # SQLite would go on reading, and fail at a lock with other words.
    if content is not None and not os.access(path, os.W_OK):
        raise said(path, sqlite3.SQLITE_READONLY)
    if content is None:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))


def _seen_to(path: Path) -> int | None:
    """Remove other users' access to a file.

    Returns:
        The size; None if there is no file.

    Raises:
        OSError: it is not a regular file.
    """
    found = _status(path)
    if found is None:
        return None
    if verbs := others_may(found.st_mode):
        path.chmod(0o600)
        log.warning(LogLine("other users could access the store", file=str(path), how=verbs))
    return found.st_size


def _size_of(path: Path) -> int:
    """Return a file's size; 0 if there is no file.

    Raises:
        OSError: it is not a regular file.
    """
    found = _status(path)
    return 0 if found is None else found.st_size


def _status(path: Path) -> os.stat_result | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "this must be a regular file", str(path))
    return found


def _prepare(connection: sqlite3.Connection, path: Path, steps: Steps) -> None:
    # This comes first: the log's index is in memory then, and the first read locks the file.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    version = _version(connection, path, len(steps))
    _check_whole(connection, path)
    if not version:  # a database with tables needs VACUUM
        connection.execute(f"PRAGMA auto_vacuum = {_FULL}")
    if (mode := _value(connection, "PRAGMA journal_mode = WAL")) != "wal":
        raise StoreError(
            f"{path}: SQLite must keep a write-ahead log here, and its journal mode is {mode}"
        )
    # A change is on disk before its caller hears of it; macOS needs fullfsync for that.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")
    connection.execute(f"PRAGMA journal_size_limit = {STORE_LOG_BYTES}")
    # Removed data may hold secrets, so its bytes are overwritten.
    connection.execute("PRAGMA secure_delete = ON")
    if version < len(steps):
        with transaction(connection):
            for statement in (each for step in steps[version:] for each in step):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {len(steps)}")
        if version:
            log.info(LogLine("the store was upgraded", file=str(path), schema=len(steps)))
    if _value(connection, "PRAGMA auto_vacuum") != _FULL:
        _let_shrink(connection, path)


def _let_shrink(connection: sqlite3.Connection, path: Path) -> None:
    """Have a file of schema 1 shrink from now on; without room for a copy it does not."""
    empty_log = "PRAGMA wal_checkpoint(TRUNCATE)"
    try:
        connection.execute(empty_log)  # could not be done once the copy has filled the disk
        connection.execute(f"PRAGMA auto_vacuum = {_FULL}")
        connection.execute("VACUUM")
    except sqlite3.Error as error:
        with suppress(sqlite3.Error):  # takes what of the copy is in it
            connection.execute(empty_log)
        reason = str(said_by_sqlite(path, error))
        log.warning(LogLine("the store's file could not be shrunk", file=str(path), reason=reason))


def _check_whole(connection: sqlite3.Connection, path: Path) -> None:
    if (found := _value(connection, "PRAGMA quick_check(1)")) != "ok":
        raise said(path, sqlite3.SQLITE_CORRUPT, str(found))


def _version(connection: sqlite3.Connection, path: Path, known: int) -> int:
    """Return the schema's version; 0 for an empty file."""
    version: int = _value(connection, "PRAGMA user_version")
    application = _value(connection, "PRAGMA application_id")
    is_new = not (
        version or application or _value(connection, "SELECT count(*) FROM sqlite_master")
    )
    if not is_new and application != APPLICATION_ID:
        raise not_ours(path)
    if version > known:
        raise too_new(path, version, known)
    return version


def _value(connection: sqlite3.Connection, statement: str) -> Any:
    return connection.execute(statement).fetchone()[0]
