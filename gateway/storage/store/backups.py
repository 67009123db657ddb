"""Backups of a store: each is one file, in the format of a store's file."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Final

from partway.gateway.storage.files import free_and_reserved, open_regular, replacing
from partway.gateway.storage.store.database import (
    APPLICATION_ID,
    STEPS,
    Steps,
    open_for_reading,
)
from partway.gateway.storage.store.record_rows import check_attachments, read_rows
from partway.gateway.storage.store.sqlite_errors import said_by_sqlite, said_by_system
from partway.gateway.storage.store.store import BackupError, StoreError

#: Bytes of a backup in one piece.
_BLOCK: Final = 1 << 20

#: Pages of 4 KiB in one step of the copy.
_STEP: Final = 256


class OnlineBackup:
    """A backup of a store that is open: a file without a name, on the store's disk.

    Call all methods but :meth:`give_up` on the thread of the store.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: FileIO | None = None
        self._is_wanted = True

    def copy(self, connection: sqlite3.Connection, between: Callable[[], None]) -> None:
        """Copy the whole store, with the changes that are made during the copy.

        Args:
            connection: the connection that makes all changes of the store.
            between: called after each MiB; may make changes.

        Raises:
            BackupError: the disk has no room for the copy, or the caller has given it up.
            StoreError: the store cannot be read, or the disk refuses the copy.
        """

        def step(*_: int) -> None:
            between()
            if not self._is_wanted:
                raise BackupError(
                    f"{self._path}: the backup was given up, since its client has left"
                )

        hidden = _hidden_copy(self._path)
        try:
            _check_room(connection, self._path)
            hidden.unlink(missing_ok=True)
            flags = os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            file = FileIO(os.open(hidden, flags, 0o600))
            try:
                _copy_pages(connection, hidden, step)
            except BaseException:
                file.close()
                raise
            finally:
                hidden.unlink()
            self._file = file
        except OSError as error:
            raise said_by_system(hidden, error) from error
        except sqlite3.Error as error:
            raise said_by_sqlite(self._path, error) from error

    def read(self) -> bytes:
        """Return the next piece of the backup; empty at the end.

        Raises:
            StoreError: the disk cannot read the piece.
        """
        assert self._file is not None, "it is copied"
        try:
            return self._file.read(_BLOCK)
        except OSError as error:
            raise said_by_system(_hidden_copy(self._path), error) from error

    def give_up(self) -> None:
        """Stop the copy after its current step. This may be called on any thread."""
        self._is_wanted = False

    def close(self) -> None:
        """Close the file, which frees its room on the disk."""
        if self._file is not None:
            self._file.close()


def remove_rest(path: Path) -> None:
    """Remove the partial backup of a process that was killed."""
    with suppress(OSError):  # the next backup says why
        _hidden_copy(path).unlink(missing_ok=True)


def copy_stopped(path: Path, file: Path, shown: Path) -> None:
    """Copy a store that no gateway has open, without a change to it.

    Args:
        file: the path of an existing, empty file for the copy.
        shown: the name of the copy in messages.

    Raises:
        BackupError: the store is empty, or the copy cannot be written.
        StoreError: the store cannot be read.
    """
    connection = open_for_reading(path)
    if connection is None:
        raise BackupError(f"{path}: nothing is stored here")
    with closing(connection):
        read_rows(connection, path)
        check_attachments(connection, path)
        try:
            _copy_pages(connection, file, lambda *_: None)
        except sqlite3.Error as error:
            raise BackupError(f"{shown}: the backup cannot be written: {error}") from error


def _copy_pages(
    connection: sqlite3.Connection, file: Path, step: Callable[[int, int, int], None]
) -> None:
    """Copy a database to an empty file, by SQLite's online backup.

    Raises:
        sqlite3.Error: the database cannot be read, or the file cannot be written.
    """
    address = f"{file.absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as copy:
        # A partial copy is thrown away, so it needs no journal.
        copy.execute("PRAGMA journal_mode = OFF")
        copy.execute("PRAGMA synchronous = OFF")
        connection.backup(copy, pages=_STEP, progress=step)


def _check_room(connection: sqlite3.Connection, path: Path) -> None:
    """Check that a copy leaves the reserve of the disk free.

    Raises:
        BackupError: the copy would use the reserve.
        OSError: the free room cannot be read.
    """
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    free, reserve = free_and_reserved(path.parent)
    if free - pages * size < reserve:
        raise BackupError(
            f"{path.parent}: a backup of a running gateway takes {pages * size} bytes here for a "
            f"while; {free} are free, and {reserve} of them are reserved; make room, or stop the "
            "gateway first"
        )


def _hidden_copy(path: Path) -> Path:
    return path.with_name(f"{path.name}-copy")


def check_backup(file: Path, shown: Path, steps: Steps = STEPS) -> int:
    """Check that a file is a complete backup with a schema that this version knows.

    Args:
        file: the file, which must not change meanwhile.
        shown: the name of the file in messages.

    Returns:
        The number of records.

    Raises:
        BackupError: the file is not such a backup.
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
                    f"{shown}: a later version of Partway has written this (schema {version}; "
                    f"this version knows schemas up to {len(steps)}); restore it with that version"
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
            raise _no_backup(shown, "is not a database") from None
        raise _damaged(shown, str(error)) from None


def _schema(connection: sqlite3.Connection) -> list[str]:
    """Return the statements of all tables, views and triggers, with single spaces."""
    rows = connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY sql")
    return [" ".join(str(statement).split()) for (statement,) in rows]


def _schema_of(steps: Steps) -> list[str]:
    """Return the same statements of a new store."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        for step in steps:
            for statement in step:
                fresh.execute(statement)
        return _schema(fresh)


def restore(path: Path, source: Path) -> tuple[int, Path | None]:
    """Replace a store by a backup; the store's old file is kept beside it.

    This process must own the store's folder.

    Args:
        source: the path of the backup; a link is not followed.

    Returns:
        The number of records, and the new path of the old store; None if there was none.

    Raises:
        BackupError: nothing is changed; the message says why.
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
            os.fsync(fresh.fileno())  # a refusal of the disk must come before anything is moved
            held.enter_context(_signals_held())
            aside = _put_aside(path)
    except OSError as error:
        why = error.strerror or error
        raise BackupError(f"{error.filename or source}: nothing is restored: {why}") from None
    return records, aside


@contextmanager
def _signals_held() -> Iterator[None]:
    """Block Ctrl-C and SIGTERM until the store and its log are both renamed."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _put_aside(path: Path) -> Path | None:
    """Give the store's files other names, from which they can be restored; no file is opened.

    The store keeps its own name too until the backup takes it, so that a store exists at every
    moment. The log loses its name earlier: SQLite would take it for the backup's log.

    Raises:
        OSError: the files cannot be renamed.
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
    return BackupError(
        f"{shown}: this file {why}; it must be a file that partway backup has written"
    )


def _damaged(shown: Path, why: str) -> BackupError:
    return BackupError(f"{shown}: the file is damaged ({why}); take another backup")
