"""Files that somebody else has written."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """Open a file to be read: a regular one, for nothing says when another one has its next byte.

    A pipe whose writer never comes would hold the process for ever, and a device has no end.

    Raises:
        OSError: it cannot be opened, or is a pipe, a device or a socket.
    """
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 (the caller's to close)
    mode = os.fstat(file.fileno()).st_mode
    if stat.S_ISREG(mode):
        return file
    file.close()
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a device"
    raise OSError(errno.EINVAL, f"this is {kind}; it must be a regular file", str(path))


def _without_waiting(path: str, flags: int) -> int:
    """Open a file, not waiting for the writer of a pipe; for a regular one it is the same."""
    return os.open(path, flags | os.O_NONBLOCK)


def read_bounded(path: Path, most: int) -> bytes:
    """All of a regular file; more than ``most`` bytes are not read.

    Raises:
        OSError: it cannot be read, or is a pipe or a device.
        ValueError: it has more.
    """
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"more than {most} bytes")
    return data


def others_may(mode: int) -> str:
    """What others than a file's owner may do with it, as a verb; empty for nothing.

    Args:
        mode: the file's mode, as ``stat`` has it.
    """
    verbs = {
        "read": mode & (stat.S_IRGRP | stat.S_IROTH),
        "write": mode & (stat.S_IWGRP | stat.S_IWOTH),
    }
    return " and ".join(verb for verb, allowed in verbs.items() if allowed)


def is_file_or_folder(path: Path) -> bool:
    """Whether a path leads to something; not so if its name is longer than the system takes."""
    try:
        return path.exists()
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Whether a path leads to a folder; not so if its name is longer than the system takes."""
    try:
        return path.is_dir()
    except OSError:
        return False
