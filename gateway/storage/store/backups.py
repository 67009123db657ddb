"""Backups of a store: one file, which is a store's file of its own."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from partway.gateway.storage.files import open_regular, replacing
from partway.gateway.storage.store.database import (
    APPLICATION_ID,
    STEPS,
    Steps,
    open_for_reading,
)
from partway.gateway.storage.store.record_rows import check_attachments, read_rows
from partway.gateway.storage.store.sqlite_errors import said_by_sqlite
from partway.gateway.storage.store.store import BackupError, StoreError

#: Read of a backup at once.
_BLOCK: Final = 1 << 20


def snapshot(connection: sqlite3.Connection, path: Path) -> bytes:
    """All of a store as the bytes of a file, as it is at one moment (SQLite's online backup).

    Args:
        connection: with the store.
        path: the store's, for messages.

    Raises:
        StoreError: it cannot be read.
    """
    try:
        with closing(sqlite3.connect(":memory:")) as copy:
            connection.backup(copy)
            return copy.serialize()
    except sqlite3.Error as error:
        raise said_by_sqlite(path, error) from error


def snapshot_of_stopped(path: Path) -> bytes:
    """The same of a store that no gateway has open; nothing of it is changed.

    Raises:
        BackupError: nothing is stored.
        StoreError: it cannot be read.
    """
    connection = open_for_reading(path, takes_older=True)
    if connection is None:
        raise BackupError(f"{path}: nothing is stored here")
    with closing(connection):
        read_rows(connection, path)
        check_attachments(connection, path)
        return snapshot(connection, path)


def check_backup(file: Path, shown: Path, steps: Steps = STEPS) -> int:
    """Check that a file is a whole backup that this version knows.

    Args:
        file: the file, which nobody changes meanwhile.
        shown: its name in messages.
        steps: of the schema that this version knows.

    Returns:
        How many records it has.

    Raises:
        BackupError: it is not.
    """
    try:
        with closing(
            sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        ) as connection:
            connection.text_factory = lambda data: data.decode(errors="replace")
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if application != APPLICATION_ID:
                raise _no_backup(shown, "is another database")
            if version > len(steps):
                raise BackupError(
                    f"{shown}: a later version of Partway has written this (schema {version}, and "
                    f"this one knows those up to {len(steps)}); restore it with that version"
                )
            (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if found != "ok":
                raise _damaged(shown, str(found))
            if version < 1 or _schema(connection) != _schema_of(steps[:version]):
                raise _no_backup(shown, f"has other tables or triggers than schema {version}")
            check_attachments(connection, shown)
            return len(read_rows(connection, shown))
    except (sqlite3.Error, StoreError) as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
            raise _no_backup(shown, "is no database") from None
        raise _damaged(shown, str(error)) from None


def _schema(connection: sqlite3.Connection) -> list[str]:
    """All tables, views and triggers of a database, by their statements with single spaces."""
    rows = connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY sql")
    return [" ".join(str(statement).split()) for (statement,) in rows]


def _schema_of(steps: Steps) -> list[str]:
    """The same of a new store."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        for step in steps:
            for statement in step:
                fresh.execute(statement)
        return _schema(fresh)


def restore(path: Path, source: Path) -> tuple[int, Path | None]:
    """Put a backup in the place of a store, whose file is kept beside it.

    The store's folder must be this process's own.

    Args:
        path: the store's.
        source: the backup's; a link is not followed.

    Returns:
        How many records it has, and where the store is now that was there; None if none was.

    Raises:
        BackupError: nothing is changed, and the message says why.
    """
    try:
        with (
            ExitStack() as held,
            open_regular(source, follows=False) as given,
            replacing(path, 0o600) as fresh,
        ):
            shutil.copyfileobj(given, fresh, _BLOCK)
            fresh.flush()
            records = check_backup(Path(fresh.name), source)
            os.fsync(fresh.fileno())  # a disk that refuses does so before anything is moved
            held.enter_context(_signals_held())
            aside = _put_aside(path)
    except OSError as error:
        why = error.strerror or error
        raise BackupError(f"{error.filename or source}: nothing is restored: {why}") from None
    return records, aside


@contextmanager
def _signals_held() -> Iterator[None]:
    """Put Ctrl-C and SIGTERM off until the store and its log have both been moved."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _put_aside(path: Path) -> Path | None:
    """Give the store's files other names, under which they can be put back; none is opened.

    The file keeps its own name too until another takes it, so that no moment is without a store.
    Its log loses its own name before that: SQLite would take it for the other file's.

    Raises:
        OSError: they cannot be given any.
    """
    if not os.path.lexists(path):
        return None
    aside = path.with_name(f"{path.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
    os.link(path, aside, follow_symlinks=False)
    log_file = path.with_name(f"{path.name}-wal")
    if os.path.lexists(log_file):
        log_file.rename(aside.with_name(f"{aside.name}-wal"))
    return aside


def _no_backup(shown: Path, why: str) -> BackupError:
    return BackupError(f"{shown}: this must be a file of partway backup, and it {why}")


def _damaged(shown: Path, why: str) -> BackupError:
    return BackupError(f"{shown}: the file is damaged ({why}); take another backup")
