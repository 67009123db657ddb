"""A store on disk, in an SQLite file."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Self

from partway.gateway.storage.store.backups import OnlineBackup, remove_rest
from partway.gateway.storage.store.database import open_database, open_for_reading, transaction
from partway.gateway.storage.store.disk_thread import DiskThread
from partway.gateway.storage.store.limits import STORE_BACKUP_TIMEOUT
from partway.gateway.storage.store.record_rows import (
    Digest,
    digest_of,
    read_attachment,
    read_rows,
    write_rows,
)
from partway.gateway.storage.store.room import (
    ROOM_LIMITS,
    Room,
    RoomLimits,
    Written,
    record_of,
    written,
)
from partway.gateway.storage.store.sqlite_errors import said_by_sqlite
from partway.gateway.storage.store.store import (
    BackupError,
    ReadBackup,
    Record,
    Removal,
    StoreError,
    StoreUnavailable,
)
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit
from partway.log_lines import LogLine

log = logging.getLogger("partway.store")


class SqliteStore:
    """Keeps records in a file that one process at a time owns; made by :meth:`opened`.

    All work on the file is done on one thread. A change is one transaction: it is made whole or not
    at all, whenever the process ends. The change is on disk when :meth:`write` returns.

    A file that the disk does not allow to write is read as it is. Each :meth:`write` tries to open
    the file for writing, as does :meth:`open_for_writing`.
    """

    def __init__(self, path: Path, thread: DiskThread, clock: Clock, limits: RoomLimits) -> None:
        self._path = path
        self._thread = thread
        self._clock = clock
        self._is_copying = False
        self._room = Room(limits)
        self._connection: sqlite3.Connection | None = None
        #: The digest of the records that were read before the file was writable; None if none were.
        self._was_read: Digest | None = None

    @classmethod
    async def opened(
        cls,
        path: Path,
        clock: Clock,
        limits: RoomLimits = ROOM_LIMITS,
        thread: DiskThread | None = None,
    ) -> Self:
        """Open a file, which is made if it is missing.

        If the disk refuses, the readable part of the file is read on demand.

        Args:
            clock: measures how long the disk takes.
            thread: the thread for this store alone; a new one by default.

        Raises:
            StoreError: the file is damaged, is open elsewhere, or belongs to another program or a
                later version. The message gives the remedy.
        """
        store = cls(path, thread or DiskThread(clock), clock, limits)
        try:
            await store._thread.run(store._open)
        except BaseException:
            await store.aclose()
            raise
        return store

    async def open_for_writing(self) -> None:
        """Open the file for writing if it is not; call this again while the disk refuses.

        Raises:
            StoreUnavailable: the disk refuses.
            StoreError: as :meth:`opened`; or another process has changed the file since it was
                read.
        """
        await self._thread.run(self._writable)

    async def records(self, kind: str) -> tuple[Record, ...]:
        return await self._thread.run(lambda: self._records(kind))

    async def attachment(self, kind: str, name: str) -> bytes:
        return await self._thread.run(lambda: self._attachment(kind, name))

    async def write(self, *changes: Record | Removal) -> None:
        made = written(changes)
        await self._thread.run(lambda: self._write(made))

    @asynccontextmanager
    async def backup(self) -> AsyncIterator[ReadBackup]:
        """Copy the whole store to a file, with its state at one moment; changes go on meanwhile.

        Yields:
            A function that reads the next piece; the piece is empty at the end. It raises
            StoreError if the disk cannot read the piece.

        Raises:
            StoreError: the store cannot be read, or the copy takes longer than
                STORE_BACKUP_TIMEOUT.
            BackupError: another backup is being copied, or the disk has no room for this one.
        """
        made = OnlineBackup(self._path)
        try:
            try:
                async with time_limit(self._clock, STORE_BACKUP_TIMEOUT):
                    await self._thread.run(lambda: self._copy_to(made))
            except TimeoutError:
                raise StoreError(
                    f"{self._path}: no backup could be written within "
                    f"{STORE_BACKUP_TIMEOUT:g} s; try again, or stop the gateway first"
                ) from None
            yield lambda: self._thread.run(made.read)
        finally:
            made.give_up()
            try:
                await self._thread.run(made.close)
            except StoreError:  # the thread has ended, so nothing reads the file
                made.close()

    async def aclose(self) -> None:
        """Close the file after the operations that were begun, within STORE_CLOSE_TIMEOUT."""
        try:
            await self._thread.aclose(self._close)
        except TimeoutError:
            log.warning(
                LogLine("the store was not closed: its disk does not answer", file=str(self._path))
            )

    # --- On the thread ---------------------------------------------------------------------------

    def _open(self) -> None:
        try:
            self._writable()
        except StoreUnavailable:
            with suppress(StoreUnavailable):  # records() raises it when they are asked for
                self._read_as_it_is()

    def _writable(self) -> sqlite3.Connection:
        """Return the connection, opened for writing if it is not.

        Raises:
            StoreError: as :meth:`open_for_writing`.
        """
        if self._connection is None:
            connection = open_database(self._path)
            try:
                rows = read_rows(connection, self._path)
                self._check_unchanged(rows)
            except BaseException:
                connection.close()
                raise
            self._room.note(rows)
            remove_rest(self._path)
            self._connection = connection
        return self._connection

    def _check_unchanged(self, rows: Sequence[Written]) -> None:
        """Check that the file still has the records that were read before it was writable."""
        if self._was_read not in (None, digest_of(rows)):
            raise StoreError(
                f"{self._path}: another process has changed this file since the gateway read it; "
                "restart the gateway"
            )

    def _read_as_it_is(self) -> tuple[Written, ...]:
        """Return all records of a file that is not open for writing.

        Raises:
            StoreError: the file cannot be read.
        """
        connection = open_for_reading(self._path)
        if connection is None:
            rows: tuple[Written, ...] = ()
        else:
            with closing(connection):
                rows = read_rows(connection, self._path)
        self._was_read = self._was_read or digest_of(rows)
        self._room.note(rows)
        return rows

    def _records(self, kind: str) -> tuple[Record, ...]:
        if self._connection is None:
            found: Iterable[Written] = self._read_as_it_is()
        else:
            found = read_rows(self._connection, self._path, kind)
        of_kind = (each for each in found if each.kind == kind)
        return tuple(record_of(each) for each in sorted(of_kind, key=lambda each: each.name))

    def _attachment(self, kind: str, name: str) -> bytes:
        if self._connection is not None:
            return read_attachment(self._connection, self._path, kind, name)
        connection = open_for_reading(self._path)
        if connection is None:
            return b""
        with closing(connection):
            return read_attachment(connection, self._path, kind, name)

    def _copy_to(self, made: OnlineBackup) -> None:
        if self._is_copying:
            raise BackupError("a backup is being written; try again when it has ended")
        connection = self._writable()
        self._is_copying = True
        try:
            made.copy(connection, self._thread.do_waiting)
        finally:
            self._is_copying = False

    def _write(self, changes: tuple[Written, ...]) -> None:
        self._room.check(changes)
        connection = self._writable()
        with self._told(), transaction(connection):
            write_rows(connection, changes)
        self._room.note(changes)

    def _close(self) -> None:
        if self._connection is None:
            return
        try:
            self._connection.close()
        except sqlite3.Error as error:
            reason = str(said_by_sqlite(self._path, error))
            log.warning(LogLine("the store was not closed properly", reason=reason))

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Translate errors of SQLite in the block."""
        try:
            yield
        except sqlite3.Error as error:
            raise said_by_sqlite(self._path, error) from error
