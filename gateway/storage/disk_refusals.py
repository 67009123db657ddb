"""A disk that takes or gives nothing for now: which errors say so, and how much room it has."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Full, over a quota, or at the process's limit of file sizes.
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

#: Somebody may mend these while the gateway runs.
_REFUSALS: Final = FULL | {errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE}


class DiskRefusal(Exception):
    """The disk refuses something now; a later try may succeed. The message says what and why."""


def is_disk_refusal(error: OSError) -> bool:
    """Whether an error says that the disk refuses for now, and not that a name is wrong."""
    return error.errno in _REFUSALS


@dataclass(frozen=True, slots=True)
class FreeRoom:
    """The room that a file system has left for this user.

    Attributes:
        bytes: for content.
        files: how many more files and folders; file systems without such a limit say 0.
    """

    bytes: int
    files: int


def free_room(path: Path) -> FreeRoom | None:
    """Return what is free on the file system of a path, or of its nearest folder that is there.

    Returns:
        None if the file system does not say.
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
