"""Errors of a disk that refuses for now, and the free room on a disk."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: The disk is full, a quota is used up, or the process's limit of file sizes is reached.
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

#: These may be mended while the gateway runs.
_REFUSALS: Final = FULL | {errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE}


class DiskRefusal(Exception):
    """The disk refuses something now; a later try may succeed. The message says what and why."""


def is_disk_refusal(error: OSError) -> bool:
    """Whether the disk refuses for now; False for a wrong name and other lasting errors."""
    return error.errno in _REFUSALS


@dataclass(frozen=True, slots=True)
class FreeRoom:
    """The free room of a file system for this user.

    Attributes:
        bytes: free bytes.
        files: how many more files and folders fit; 0 on file systems without such a limit.
    """

    bytes: int
    files: int


def free_room(path: Path) -> FreeRoom | None:
    """Return the free room of a path's file system, or of its nearest existing parent's.

    Returns:
        None if the file system gives no answer.
    """
    for place in (path, *path.parents):
        try:
            found = os.statvfs(place)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        return FreeRoom(found.f_bavail * found.f_frsize, found.f_favail)
    return None
