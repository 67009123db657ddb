"""The folder that model data lies in: one gateway's, with a name for each content.

Whole data is at 64 hexadecimal digits, whatever is made or removed at ``NUMBER.part``; nothing else
is touched. Its functions work on files: they are called on threads.
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
    """Another gateway has the folder."""


class DataFolder:
    """The folder, locked for one gateway, and the space in it.

    Args:
        path: where it is; made when it is taken over.
        quota: bytes that may lie there.

    Attributes:
        path: where it is.
        room: the space.
    """

    def __init__(self, path: Path, quota: int) -> None:
        self.path = path.absolute()
        self.room = DiskRoom(quota)
        self._lock: int | None = None
        self._taking_over = threading.Lock()
        self._numbers = count()

    def take_over(self, in_use: AbstractSet[Path], wanted: Wanted) -> dict[Path, RoomShare]:
        """Lock the folder, and remove what a gateway that is gone has left in it.

        Args:
            in_use: what is not removed.
            wanted: is asked before each removal.

        Returns:
            What was not removed, with what it takes of the space.

        Raises:
            DataFolderInUse: another gateway has it.
            OSError: it cannot be made, or something in it not be removed.
            WorkStopped: it is not wanted any more; to be called again.
        """
        # A thread that hung here and was left behind may go on while another one is at it: without
        # turns it would remove what that one's gateway has made, or lock that one out.
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
        """A name for something under way."""
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
        """Let another gateway have the folder."""
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
            wanted.check()  # else the folder would stay locked though it has been closed meanwhile
        except WorkStopped:
            os.close(lock)
            raise
        return lock

    def _measured(self, top: Path) -> RoomShare:
        """What something takes; not more than there is, since a quota may have been lowered."""
        share = self.room.share()
        with suppress(NoRoom):
            share.take_file(0)
            for parent, folders, files in os.walk(top):
                for name in (*folders, *files):
                    share.take_file(Path(parent, name).lstat().st_size)
        return share
