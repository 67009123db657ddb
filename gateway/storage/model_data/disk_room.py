"""Disk space accounting of model data."""

from __future__ import annotations

import threading
from collections.abc import Callable

from partway.gateway.storage.limits import MODEL_DATA_BLOCK


class NoRoom(Exception):
    """There is no disk space left for model data; the message gives the limit and the remedy.

    Args:
        passing: whether a retry may help once other data is removed.
    """

    def __init__(self, reason: str, *, passing: bool) -> None:
        super().__init__(reason)
        self.passing = passing


class DiskRoom:
    """The disk space for all model data of a gateway. Threads may share the object.

    Args:
        most: the limit in bytes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._used = 0
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Bytes that are in use."""
        return self._used

    def share(self, beside: RoomShare | None = None) -> RoomShare:
        """Begin the share of data that is removed as a whole.

        Args:
            beside: the share of data that exists only to make this data.
        """
        return RoomShare(self._take, self._give, beside)

    def _take(self, size: int, taken: int) -> None:
        with self._lock:
            if self._used + size > self._most:
                alone = taken + size > self._most
                others = "" if alone else f", of which other data uses {_mib(self._used - taken)}"
                raise NoRoom(
                    f"it needs more than the {_mib(self._most)} that all model data may use on "
                    f"disk{others}; raise model_data_quota",
                    passing=not alone,
                )
            self._used += size

    def _give(self, size: int) -> None:
        with self._lock:
            self._used -= size


class RoomShare:
    """The disk space of one piece of model data; made by :meth:`DiskRoom.share`.

    Only one thread at a time takes space in a share.

    Args:
        take: takes bytes (first) for a share that has some already (second).
        give: gives bytes back.
        beside: the share of data that exists only to make this data.
    """

    def __init__(
        self,
        take: Callable[[int, int], None],
        give: Callable[[int], None],
        beside: RoomShare | None,
    ) -> None:
        self._take = take
        self._give = give
        self._beside = beside
        self._taken = 0

    @property
    def taken(self) -> int:
        """Bytes of this share."""
        return self._taken

    def take_file(self, size: int) -> None:
        """Take the space of a file, a folder or a link: its blocks, and one block for its entry.

        Raises:
            NoRoom: there is not enough space.
        """
        blocks = -(-size // MODEL_DATA_BLOCK) + 1
        beside = 0 if self._beside is None else self._beside.taken
        self._take(blocks * MODEL_DATA_BLOCK, self._taken + beside)
        self._taken += blocks * MODEL_DATA_BLOCK

    def give_back(self) -> None:
        """Give the whole share back; the data is removed."""
        self._give(self._taken)
        self._taken = 0


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
