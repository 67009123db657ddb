"""A path of this machine that somebody else than the operator has named, looked at again later.

Between the look that allowed it and its use another user of the machine may put a link, or another
folder, in its place.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class PinnedPath:
    """Where something was found, and what it was.

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
        return cls(path, _identity(path))

    def check(self) -> None:
        """Look again.

        Raises:
            ValueError: another thing is there, or a link leads to it; the message says so.
        """
        found = _identity(self.path)
        if found is None:  # what opens it says why
            return
        # Who has followed all links comes to the same path as long as nobody makes another one.
        by_a_link = os.path.realpath(self.path) != str(self.path)
        if by_a_link or self.identity not in (None, found):
            raise ValueError(
                f"{self.path} is not what was there when the endpoint was made: a link or another "
                "folder is in its place; put back what was there, or update the endpoint"
            )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
