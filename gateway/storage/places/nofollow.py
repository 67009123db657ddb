"""Opening paths folder by folder from ``/`` with ``O_NOFOLLOW``, so that no link is followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: A folder on the way: it need not be readable on Linux, but must be elsewhere.
_PASSED: Final = _FOLDER | getattr(os, "O_PATH", 0)


def open_without_links(path: Path) -> int:
    """Open a file or a folder for reading.

    Args:
        path: an absolute path without ``..``.

    Returns:
        The descriptor, which the caller must close.

    Raises:
        OSError: the path cannot be opened. ELOOP stands for a link at the path, ENOTDIR for a link
            on the way.
    """
    if path == path.parent:
        return os.open(path, _READ)
    with folder_without_links(path.parent) as folder:
        return os.open(path.name, _READ, dir_fd=folder)


@contextmanager
def folder_without_links(path: Path, below: Path | None = None) -> Iterator[int]:
    """Open a folder for the time of the block.

    Args:
        path: an absolute path without ``..``.
        below: missing folders are made below this folder. It must exist itself, so that nothing is
            written beside a missing mount.

    Yields:
        The descriptor, for relative paths.

    Raises:
        OSError: the folder cannot be opened, or a missing folder cannot be made.
    """
    descriptor = os.open("/", _PASSED)
    try:
        for number, name in enumerate(path.parts[1:], 1):
            try:
                inner = os.open(name, _PASSED, dir_fd=descriptor)
            except FileNotFoundError:
                if below is None or number < len(below.parts):
                    raise
                with suppress(FileExistsError):  # another task has made it
                    os.mkdir(name, 0o700, dir_fd=descriptor)
                inner = os.open(name, _PASSED, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def synchronise_folder(folder: int) -> None:
    """Flush the names in a folder to the disk.

    Args:
        folder: the descriptor of the folder, which need not be readable.
    """
    readable = os.open(".", _FOLDER, dir_fd=folder)
    try:
        os.fsync(readable)
    finally:
        os.close(readable)
