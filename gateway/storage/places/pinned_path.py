"""A path of this machine that a caller of the API has named, and what was there at that time.

Another user of the machine may put a link, or another folder, at such a path at any time. So the
path is opened without following a link, and the open descriptor is compared with what was there.
"""

from __future__ import annotations

import errno
import os
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from partway.gateway.storage.places.nofollow import open_without_links


class PathChanged(Exception):
    """A link or another file or folder is at a path now."""


@dataclass(frozen=True, slots=True)
class PinnedPath:
    """A path, and what was found there.

    Attributes:
        path: absolute, with every link on the way followed.
        identity: device and inode; None if nothing was there.
    """

    path: Path
    identity: tuple[int, int] | None

    @classmethod
    def of(cls, path: Path) -> Self:
        """Remember what is at a path.

        Args:
            path: absolute, with every link on the way followed.
        """
        try:
            found = path.lstat()
        except OSError:
            return cls(path, None)
        return cls(path, (found.st_dev, found.st_ino))

    def open(self) -> int:
        """Open what is at the path, by no link.

        Returns:
            A descriptor to read by, which is the caller's to close.

        Raises:
            PathChanged: a link leads there, or another thing is there.
            OSError: it cannot be opened.
        """
        try:
            descriptor = open_without_links(self.path)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise self._changed() from None
            error.filename = str(self.path)
            raise
        if self.identity in (None, _identity(descriptor)):
            return descriptor
        os.close(descriptor)
        raise self._changed()

    def check(self) -> None:
        """Look whether the same is still there.

        Raises:
            PathChanged: a link leads there, or another thing is there.
            OSError: it cannot be opened.
        """
        os.close(self.open())

    def _changed(self) -> PathChanged:
        return PathChanged(
            f"{self.path} is not what was there when the endpoint was made: a link or another "
            "file or folder is in its place; put back what was there, or update the endpoint"
        )


class OpenFolder:
    """A folder of a caller's that stays open, so that it is the same one whatever its path becomes.

    It is closed at the latest when nothing refers to it: a thread may open it for a task that is
    cancelled by then.

    Args:
        path: the folder's path.
        descriptor: of the open folder.

    Attributes:
        pinned: its path, and which folder it is.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.pinned = PinnedPath(path, _identity(descriptor))
        self._descriptor = descriptor
        self._closing = weakref.finalize(self, os.close, descriptor)

    @property
    def program_path(self) -> Path | None:
        """A path that leads to this very folder, for programs of the gateway's own user.

        It is ``/proc/PID/fd/N``; None on systems without one.
        """
        path = Path(f"/proc/{os.getpid()}/fd/{self._descriptor}")
        # The folder itself is not looked at: its file system may hang.
        return path if path.is_symlink() else None

    def close(self) -> None:
        """Close it; to close it again changes nothing."""
        self._closing()


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
