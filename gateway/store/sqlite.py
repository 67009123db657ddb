"""A store on disk."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self
from zlib import crc32

from partway.gateway.clock import Clock
from partway.gateway.store.database import open_database, transaction
from partway.gateway.store.disk_thread import DiskThread
from partway.gateway.store.room import ROOM_LIMITS, Room, RoomLimits, Written, record_of, written
from partway.gateway.store.sqlite_errors import said, said_by_sqlite
from partway.gateway.store.store import Record, Removal
from partway.log_lines import LogLine

log = logging.getLogger("partway.store")


class SqliteStore:
    """Keeps records in a file, of which one process at a time is the owner; made by :meth:`opened`.

    All work on the file is done on one thread, a change in one transaction: so it is made whole or
    not at all, whenever the process ends, and it is on disk when :meth:`write` returns.
    """

    def __init__(self, path: Path, thread: DiskThread, limits: RoomLimits) -> None:
        self._path = path
        self._thread = thread
        self._room = Room(limits)
        self._connection: sqlite3.Connection | None = None

    @classmethod
    async def opened(
        cls,
        path: Path,
        clock: Clock,
        limits: RoomLimits = ROOM_LIMITS,
        thread: DiskThread | None = None,
    ) -> Self:
        """Open a file, which is made if it is missing.

        Args:
            path: the file's; its folder is there.
            clock: measures how long the disk takes.
            limits: how much the store takes.
            thread: that works on the file, for this store alone; a new one by default.

        Raises:
            StoreError: the file cannot be used, is damaged, or is another program's or a later
                version's; the message says what to do.
        """
        store = cls(path, thread or DiskThread(clock), limits)
        try:
            await store._thread.run(store._open)
        except BaseException:
            await store.aclose()
            raise
        return store

    async def records(self, kind: str) -> tuple[Record, ...]:
        """Return all records of a kind, in the order of their names.

        Raises:
            StoreError: they cannot be read.
        """
        return await self._thread.run(lambda: self._records(kind))

    async def write(self, *changes: Record | Removal) -> None:
        """Make all these changes, or none; they are on disk when this returns.

        Raises:
            StoreError: none of them is made: there is no room for them, or the disk does not take
                them.
        """
        made = written(changes)
        await self._thread.run(lambda: self._write(made))

    async def aclose(self) -> None:
        """Let go of the file; what was begun is finished first, within STORE_CLOSE_TIMEOUT."""
        try:
            await self._thread.aclose(self._close)
        except TimeoutError:
            log.warning(
                LogLine("the store is not closed: its disk does not answer", file=str(self._path))
            )

    # --- On the thread ---------------------------------------------------------------------------

    def _open(self) -> None:
        self._connection = open_database(self._path)
        with self._told() as connection:
            rows = connection.execute("SELECT kind, name, body, checksum FROM records")
            self._room.note(self._checked(*row) for row in rows)

    def _records(self, kind: str) -> tuple[Record, ...]:
        with self._told() as connection:
            rows = connection.execute(
                "SELECT kind, name, body, checksum FROM records WHERE kind = ? ORDER BY name",
                (kind,),
            )
            return tuple(record_of(self._checked(*row)) for row in rows)

    def _checked(self, kind: str, name: str, text: str, checksum: int) -> Written:
        if checksum != _checksum(kind, name, text):
            raise said(self._path, sqlite3.SQLITE_CORRUPT, f"the record of the {kind} {name!r}")
        return Written(kind, name, text)

    def _write(self, changes: tuple[Written, ...]) -> None:
        self._room.check(changes)
        with self._told() as connection, transaction(connection):
            for each in changes:
                key = (each.kind, each.name)
                if each.text is None:
                    connection.execute("DELETE FROM records WHERE kind = ? AND name = ?", key)
                else:
                    connection.execute(
                        "INSERT OR REPLACE INTO records (kind, name, body, checksum) "
                        "VALUES (?, ?, ?, ?)",
                        (*key, each.text, _checksum(*key, each.text)),
                    )
        self._room.note(changes)

    def _close(self) -> None:
        if self._connection is None:
            return
        try:
            self._connection.close()
        except sqlite3.Error as error:
            reason = str(said_by_sqlite(self._path, error))
            log.warning(LogLine("the store is not closed in order", reason=reason))

    @contextmanager
    def _told(self) -> Iterator[sqlite3.Connection]:
        """The connection; what SQLite says of it is said in words."""
        assert self._connection is not None, "it is opened first, on the same thread"
        try:
            yield self._connection
        except sqlite3.Error as error:
            raise said_by_sqlite(self._path, error) from error


def _checksum(kind: str, name: str, text: str) -> int:
    """A number by which a record is seen to be as it was written: SQLite's pages have none."""
    return crc32(f"{kind}\0{name}\0{text}".encode())
