"""Errors of SQLite and the system about a store's file, in words: the fault and the remedy."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from partway.gateway.storage.disk_refusals import is_disk_refusal
from partway.gateway.storage.files import is_folder
from partway.gateway.storage.store.store import StoreError, StoreUnavailable

_ELSEWHERE: Final = "name another folder with --data-dir DIR"

#: Messages by SQLite's primary result code.
_WORDS: Final = {
    sqlite3.SQLITE_FULL: f"the disk is full; make room there, or {_ELSEWHERE}",
    sqlite3.SQLITE_IOERR: (
        "the disk cannot be read or written; check whether it is full or fails, and this user's "
        f"limit of file sizes (ulimit -f), or {_ELSEWHERE}"
    ),
    sqlite3.SQLITE_READONLY: (
        f"the file cannot be written to; it and its file system must be writable, or {_ELSEWHERE}"
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "the file cannot be opened; it and its -wal and -journal files must be regular files "
        "that the gateway's user may read and write, and their folder must take one more file"
    ),
    sqlite3.SQLITE_BUSY: (
        "another process has the file open (a gateway, or the sqlite3 shell); end it, or "
        f"{_ELSEWHERE}"
    ),
    sqlite3.SQLITE_NOTADB: (
        "this file is not a database; it must be one that Partway has made; move it away, or "
        f"{_ELSEWHERE}"
    ),
    sqlite3.SQLITE_CORRUPT: (
        "the file is damaged; put a copy of it back, or move it and its -wal file away, which "
        "removes everything that was created through the API"
    ),
}


#: Primary result codes of SQLite for refusals that may pass.
_REFUSALS: Final = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
    }
)


def said(path: Path, code: int, what: str = "") -> StoreError:
    """Return the error for a fault of a store's file.

    Args:
        code: SQLite's primary result code, one of the keys of ``_WORDS``.
        what: details; empty for none.
    """
    kind = StoreUnavailable if code in _REFUSALS else StoreError
    return kind(f"{path}: {_WORDS[code]}{what and f' ({what})'}")


def said_by_sqlite(path: Path, error: sqlite3.Error) -> StoreError:
    """Translate an error of SQLite."""
    # An error of Python's own module has neither code nor name.
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    name: str = getattr(error, "sqlite_errorname", type(error).__name__)
    return said(path, code, name) if code in _WORDS else StoreError(f"{path}: {error} ({name})")


def said_by_system(path: Path, error: OSError) -> StoreError:
    """Translate an error of the system about a store's file.

    Args:
        path: the path of the file, unless the error names another file.
    """
    kind = StoreUnavailable if is_disk_refusal(error) or _has_no_folder(path) else StoreError
    return kind(
        f"{error.filename or path}: the store cannot be kept here: {error.strerror or error}; "
        f"{_ELSEWHERE}"
    )


def _has_no_folder(path: Path) -> bool:
    """Whether a store's folder is missing, as on a full disk."""
    return not is_folder(path.parent)


def not_ours(path: Path) -> StoreError:
    return StoreError(
        f"{path}: this is another program's database; it must be one that Partway has made; move "
        f"it away, or {_ELSEWHERE}"
    )


def too_new(path: Path, version: int, known: int) -> StoreError:
    """Return the error for a file of a later Partway."""
    return StoreError(
        f"{path}: a later version of Partway has written this (schema {version}; this version "
        f"knows schemas up to {known}); start that version, or {_ELSEWHERE}"
    )
