"""Records and their attachments as rows of a store's file.

Each row has a checksum: SQLite's pages have none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias
from zlib import crc32

from partway.gateway.storage.store.room import Written
from partway.gateway.storage.store.sqlite_errors import said, said_by_sqlite

#: A number of records, and the sum of their checksums.
Digest: TypeAlias = tuple[int, int]


def read_rows(connection: sqlite3.Connection, path: Path, kind: str = "") -> tuple[Written, ...]:
    """Return the records of a file, or those of one kind.

    Args:
        kind: the kind of the records; empty for all.

    Raises:
        StoreError: the records cannot be read, or a checksum is wrong.
    """
    try:
        rows = connection.execute(
            "SELECT kind, name, body, checksum FROM records WHERE kind = ? OR ? = ''", (kind, kind)
        )
        return tuple(_checked(path, *row) for row in rows)
    except sqlite3.Error as error:
        raise said_by_sqlite(path, error) from error


def read_attachment(connection: sqlite3.Connection, path: Path, kind: str, name: str) -> bytes:
    """Return the attachment of a record; empty if there is no record or no attachment.

    A file of schema 1 has no attachments.

    Raises:
        StoreError: the attachment cannot be read, or its checksum is wrong.
    """
    try:
        if not _has_attachments(connection):
            return b""
        row = connection.execute(
            "SELECT content, checksum FROM attachments WHERE kind = ? AND name = ?", (kind, name)
        ).fetchone()
    except sqlite3.Error as error:
        raise said_by_sqlite(path, error) from error
    return b"" if row is None else _checked_attachment(path, kind, name, *row)


def check_attachments(connection: sqlite3.Connection, path: Path) -> None:
    """Check all attachments of a file by their checksums; one at a time is in memory.

    A file of schema 1 has no table for them.

    Raises:
        StoreError: the attachments cannot be read, or a checksum is wrong.
    """
    try:
        if not _has_attachments(connection):
            return
        for row in connection.execute("SELECT kind, name, content, checksum FROM attachments"):
            _checked_attachment(path, *row)
    except sqlite3.Error as error:
        raise said_by_sqlite(path, error) from error


def write_rows(connection: sqlite3.Connection, changes: Iterable[Written]) -> None:
    """Make changes inside a transaction.

    Raises:
        sqlite3.Error: not all changes are made.
    """
    for each in changes:
        key = (each.kind, each.name)
        connection.execute("DELETE FROM attachments WHERE kind = ? AND name = ?", key)
        if each.attachment:
            connection.execute(
                "INSERT INTO attachments (kind, name, content, checksum) VALUES (?, ?, ?, ?)",
                (*key, each.attachment, _attachment_checksum(*key, each.attachment)),
            )
        if each.text is None:
            connection.execute("DELETE FROM records WHERE kind = ? AND name = ?", key)
        else:
            connection.execute(
                "INSERT OR REPLACE INTO records (kind, name, body, checksum) VALUES (?, ?, ?, ?)",
                (*key, each.text, _checksum(*key, each.text)),
            )


def digest_of(rows: Sequence[Written]) -> Digest:
    """Return a digest of records, to compare with later ones."""
    return len(rows), sum(_checksum(each.kind, each.name, each.text or "") for each in rows)


def _checked(path: Path, kind: str, name: str, text: str, checksum: int) -> Written:
    if checksum != _checksum(kind, name, text):
        raise said(path, sqlite3.SQLITE_CORRUPT, f"the record of the {kind} {name!r}")
    return Written(kind, name, text)


def _checked_attachment(path: Path, kind: str, name: str, content: bytes, checksum: int) -> bytes:
    if checksum != _attachment_checksum(kind, name, content):
        raise said(path, sqlite3.SQLITE_CORRUPT, f"the attachment of the {kind} {name!r}")
    return content


def _has_attachments(connection: sqlite3.Connection) -> bool:
    table = "SELECT 1 FROM sqlite_schema WHERE name = 'attachments'"
    return connection.execute(table).fetchone() is not None


def _checksum(kind: str, name: str, text: str) -> int:
    return crc32(f"{kind}\0{name}\0{text}".encode())


def _attachment_checksum(kind: str, name: str, content: bytes) -> int:
    return crc32(content, crc32(f"{kind}\0{name}\0".encode()))
