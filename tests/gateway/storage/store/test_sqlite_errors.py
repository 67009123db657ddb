"""partway.gateway.storage.store.sqlite_errors: words for what SQLite and the system say."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

from partway.gateway.storage.store.sqlite_errors import said_by_sqlite, said_by_system

FILE = Path("/data/store.db")


def sqlite_error(code: int, name: str) -> sqlite3.Error:
    error = sqlite3.OperationalError("its own words")
    error.sqlite_errorcode, error.sqlite_errorname = code, name
    return error


def test_a_code_is_told_by_its_primary_one():
    # 13 is SQLITE_FULL; 778 is SQLITE_IOERR_WRITE, one of the many of SQLITE_IOERR, 10.
    assert str(said_by_sqlite(FILE, sqlite_error(13, "SQLITE_FULL"))) == (
        "/data/store.db: the disk is full; make room there, or name another folder with "
        "--data-dir DIR (SQLITE_FULL)"
    )
    assert "/data/store.db: the disk cannot be read or written" in str(
        said_by_sqlite(FILE, sqlite_error(778, "SQLITE_IOERR_WRITE"))
    )


def test_what_has_no_words_of_ours_has_its_own():
    assert str(said_by_sqlite(FILE, sqlite_error(1, "SQLITE_ERROR"))) == (
        "/data/store.db: its own words (SQLITE_ERROR)"
    )
    assert str(said_by_sqlite(FILE, sqlite3.ProgrammingError("closed"))) == (
        "/data/store.db: closed (ProgrammingError)"
    )


def test_what_the_system_says_names_the_file_that_it_means():
    error = OSError(errno.ENOSPC, "No space left on device")
    assert str(said_by_system(FILE, error)) == (
        "/data/store.db: the store cannot be kept here: No space left on device; name another "
        "folder with --data-dir DIR"
    )
    error = OSError(errno.EACCES, "Permission denied", "/data/store.db-wal")
    assert str(said_by_system(FILE, error)).startswith("/data/store.db-wal: the store cannot be")
