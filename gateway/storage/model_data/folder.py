"""The folder of unpacked model data: owned by one gateway, with a subfolder for each content.

Complete data has a name of 64 hexadecimal digits. Data that is being made or removed is at
``NUMBER.part``. Nothing else is touched. The functions work on files and are called on threads.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from partway.gateway.storage.file_threads import Wanted, WorkStopped, remove_tree
from partway.gateway.storage.files import locked
from partway.gateway.storage.model_data.disk_room import DiskRoom, NoRoom, RoomShare

_LOCK: Final = "lock"
_OURS: Final = re.compile(r"[0-9a-f]{64}|[0-9]+\.part")
_WHOLE: Final = re.compile(r"[0-9a-f]{64}")


class DataFolderInUse(Exception):
    """Another gateway owns the folder."""


class DataFolder:
    """The folder, locked for one gateway, and its disk space.

    Args:
        path: the path of the folder, which :meth:`take_over` makes.
        quota: the limit of its data in bytes.

    Attributes:
        path: the absolute path.
    """

    def __init__(self, path: Path, quota: int) -> None:
        self.path = path.absolute()
        self.room = DiskRoom(quota)
        self._lock: int | None = None
        self._taking_over = threading.Lock()
        self._numbers = count()

    def take_over(self, in_use: AbstractSet[Path], wanted: Wanted) -> dict[Path, RoomShare]:
        """Lock the folder, and remove an earlier gateway's data in it.

        Args:
            in_use: the paths that are not removed.
            wanted: checked before each removal.

        Returns:
            The paths that were not removed, each with its disk space.

        Raises:
            DataFolderInUse: another gateway owns the folder.
            OSError: the folder cannot be made, or something in it cannot be removed.
            WorkStopped: the work was stopped; call the method again.
        """
        # A thread that hung here and was left behind may resume while another one is at work.
        # Without the lock it would remove the other gateway's data, or lock the other gateway out.
        with self._taking_over:
            wanted.check()
            if self._lock is None:
                self._lock = self._locked(wanted)
            kept = {}
            for path in sorted(self.path.iterdir()):
                wanted.check()
                if path in in_use and _WHOLE.fullmatch(path.name) and path.is_dir():
                    kept[path] = self._measured(path)
                elif _OURS.fullmatch(path.name):
                    remove_tree(path)
            return kept

    def temporary(self) -> Path:
        """Return a new name for unfinished data."""
        return self.path / f"{next(self._numbers)}.part"

    def remove(self, path: Path) -> None:
        """Remove something; its name is free at once.

        Raises:
            OSError: it cannot be removed.
        """
        if _WHOLE.fullmatch(path.name):
            path.chmod(0o700)
            path = path.rename(self.temporary())
        remove_tree(path)

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _locked(self, wanted: Wanted) -> int:
        self.path.mkdir(0o700, exist_ok=True)
        try:
            lock = locked(self.path / _LOCK)
        except BlockingIOError:
            raise DataFolderInUse from None
        try:
            wanted.check()  # otherwise the folder would stay locked after it was closed
        except WorkStopped:
            os.close(lock)
            raise
        return lock

    def _measured(self, top: Path) -> RoomShare:
        """Return the disk space of existing data, up to the quota, which may have been lowered."""
        share = self.room.share()
        with suppress(NoRoom):
            share.take_file(0)
            for parent, folders, files in os.walk(top):
                for name in (*folders, *files):
                    share.take_file(Path(parent, name).lstat().st_size)
        return share
