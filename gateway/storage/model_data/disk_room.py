"""How much disk space model data may take, and how much it takes."""

from __future__ import annotations

import threading
from collections.abc import Callable

from partway.gateway.storage.limits import MODEL_DATA_BLOCK


class NoRoom(Exception):
    """There is no disk space left for model data; says how much there is, and what to do.

    Args:
        reason: what it says.
        passing: whether there may be room once other data has gone.
    """

    def __init__(self, reason: str, *, passing: bool) -> None:
        super().__init__(reason)
        self.passing = passing


class DiskRoom:
    """The disk space for all model data of a gateway. Threads may share it.

    Args:
        most: bytes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._used = 0
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Bytes that are taken."""
        return self._used

    def share(self, beside: RoomShare | None = None) -> RoomShare:
        """Begin to take space for something that goes as a whole.

        Args:
            beside: what is there only for its sake.
        """
        return RoomShare(self._take, self._give, beside)

    def _take(self, size: int, taken: int) -> None:
        with self._lock:
            if self._used + size > self._most:
                alone = taken + size > self._most
                others = "" if alone else f", of which other data has {_mib(self._used - taken)}"
                raise NoRoom(
                    f"it takes more than the {_mib(self._most)} that all model data may have on "
                    f"disk{others}; raise model_data_quota",
                    passing=not alone,
                )
            self._used += size

    def _give(self, size: int) -> None:
        with self._lock:
            self._used -= size


class RoomShare:
    """What one piece of model data takes of the space; made by :meth:`DiskRoom.share`.

    Of one share, one thread takes at a time.

    Args:
        take: takes so many bytes, for one that has so many already.
        give: gives so many back.
        beside: what is there only for its sake.
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
        """Bytes that it has."""
        return self._taken

    def take_file(self, size: int) -> None:
        """Take the space of a file, a folder or a link: its blocks, and one for its entry.

        Raises:
            NoRoom: there is not so much.
        """
        blocks = -(-size // MODEL_DATA_BLOCK) + 1
        beside = 0 if self._beside is None else self._beside.taken
        self._take(blocks * MODEL_DATA_BLOCK, self._taken + beside)
        self._taken += blocks * MODEL_DATA_BLOCK

    def give_back(self) -> None:
        """Give all of it back: what took it has gone."""
        self._give(self._taken)
        self._taken = 0


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
