"""Paths opened a folder at a time from ``/`` on, with ``O_NOFOLLOW``: no link is followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: A folder on the way: it need not be readable (Linux; elsewhere it must be).
_PASSED: Final = _FOLDER | getattr(os, "O_PATH", 0)


def open_without_links(path: Path) -> int:
    """Open a file or a folder to be read.

    Args:
        path: absolute, without ``..``.

    Returns:
        The descriptor, which is the caller's to close.

    Raises:
        OSError: it cannot be opened: ELOOP for a link at the path, ENOTDIR for one on the way.
    """
    if path == path.parent:
        return os.open(path, _READ)
    with folder_without_links(path.parent) as folder:
        return os.open(path.name, _READ, dir_fd=folder)


@contextmanager
def folder_without_links(path: Path, below: Path | None = None) -> Iterator[int]:
    """Open a folder for as long as the block runs.

    Args:
        path: absolute, without ``..``.
        below: the folder below which missing ones are made. It must be there itself: nothing is
            written beside a mount that is away.

    Yields:
        Its descriptor, for paths relative to it.

    Raises:
        OSError: it cannot be opened, or a missing one cannot be made.
    """
    descriptor = os.open("/", _PASSED)
    try:
        for number, name in enumerate(path.parts[1:], 1):
            try:
                inner = os.open(name, _PASSED, dir_fd=descriptor)
            except FileNotFoundError:
                if below is None or number < len(below.parts):
                    raise
                with suppress(FileExistsError):  # of another answer
                    os.mkdir(name, 0o700, dir_fd=descriptor)
                inner = os.open(name, _PASSED, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def synchronise_folder(folder: int) -> None:
    """Have the disk keep the names in a folder.

    Args:
        folder: its descriptor, which need not be one to read by.
    """
    readable = os.open(".", _FOLDER, dir_fd=folder)
    try:
        os.fsync(readable)
    finally:
        os.close(readable)
