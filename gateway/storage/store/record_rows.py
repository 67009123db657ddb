"""Records as rows of a store's file, each with a checksum: SQLite's pages have none."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias
from zlib import crc32

from partway.gateway.storage.store.room import Written
from partway.gateway.storage.store.sqlite_errors import said, said_by_sqlite

#: How many records there are, and the sum of their checksums.
Digest: TypeAlias = tuple[int, int]


def read_rows(connection: sqlite3.Connection, path: Path, kind: str = "") -> tuple[Written, ...]:
    """The records of a file, or those of one kind.

    Args:
        connection: with the file.
        path: the file's, for messages.
        kind: of the records; empty for all.

    Raises:
        StoreError: they cannot be read, or one is not as it was written.
    """
    try:
        rows = connection.execute(
            "SELECT kind, name, body, checksum FROM records WHERE kind = ? OR ? = ''", (kind, kind)
        )
        return tuple(_checked(path, *row) for row in rows)
    except sqlite3.Error as error:
        raise said_by_sqlite(path, error) from error


def write_rows(connection: sqlite3.Connection, changes: Iterable[Written]) -> None:
    """Make changes, inside a transaction.

    Raises:
        sqlite3.Error: not all of them are made.
    """
    for each in changes:
        key = (each.kind, each.name)
        if each.text is None:
            connection.execute("DELETE FROM records WHERE kind = ? AND name = ?", key)
        else:
            connection.execute(
                "INSERT OR REPLACE INTO records (kind, name, body, checksum) VALUES (?, ?, ?, ?)",
                (*key, each.text, _checksum(*key, each.text)),
            )


def digest_of(rows: Sequence[Written]) -> Digest:
    """A number of records, by which other records are told from these."""
    return len(rows), sum(_checksum(each.kind, each.name, each.text or "") for each in rows)


def _checked(path: Path, kind: str, name: str, text: str, checksum: int) -> Written:
    if checksum != _checksum(kind, name, text):
        raise said(path, sqlite3.SQLITE_CORRUPT, f"the record of the {kind} {name!r}")
    return Written(kind, name, text)


def _checksum(kind: str, name: str, text: str) -> int:
    return crc32(f"{kind}\0{name}\0{text}".encode())
