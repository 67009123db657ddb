"""A path of this machine that a caller of the API has named, with the identity of its file.

Another user of the machine may put a link or another folder at such a path at any time. So the path
is opened without following a link, and the open descriptor is compared with the identity.
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
    """A link, or another file or folder, is now at a path."""


@dataclass(frozen=True, slots=True)
class PinnedPath:
    """A path, and the identity of the file or folder there.

    Attributes:
        path: an absolute path, with all links followed.
        identity: device and inode; None if the path did not exist.
    """

    path: Path
    identity: tuple[int, int] | None

    @classmethod
    def of(cls, path: Path) -> Self:
        """Remember the file or folder at a path.

        Args:
            path: an absolute path, with all links followed.
        """
        try:
            found = path.lstat()
        except OSError:
            return cls(path, None)
        return cls(path, (found.st_dev, found.st_ino))

    def open(self) -> int:
        """Open the path without following a link.

        Returns:
            A readable descriptor, which the caller must close.

        Raises:
            PathChanged: a link or something else is at the path.
            OSError: the path cannot be opened.
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
        """Check that the same file or folder is still there.

        Raises:
            PathChanged: a link or something else is at the path.
            OSError: the path cannot be opened.
        """
        os.close(self.open())

    def _changed(self) -> PathChanged:
        return PathChanged(
            f"{self.path} has changed since the endpoint was created: a link or another "
            "file or folder is in its place; put back what was there, or update the endpoint"
        )


class OpenFolder:
    """A caller's folder that stays open, so that it stays the same when its path changes.

    It is closed at the latest when nothing refers to it. A thread may open it for a task that is
    cancelled meanwhile.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.pinned = PinnedPath(path, _identity(descriptor))
        self._descriptor = descriptor
        self._closing = weakref.finalize(self, os.close, descriptor)

    @property
    def program_path(self) -> Path | None:
        """A path that leads to the open folder, for programs of the gateway's own user.

        It is ``/proc/PID/fd/N``; None on systems without ``/proc``.
        """
        path = Path(f"/proc/{os.getpid()}/fd/{self._descriptor}")
        # The folder itself is not looked at: its file system may hang.
        return path if path.is_symlink() else None

    def close(self) -> None:
        """Close the folder; further calls do nothing."""
        self._closing()


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
