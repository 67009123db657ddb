"""A store in memory, which lasts until the process ends."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from partway.gateway.storage.store.room import (
    ROOM_LIMITS,
    Room,
    RoomLimits,
    Written,
    record_of,
    written,
)
from partway.gateway.storage.store.store import ReadBackup, Record, Removal, StoreError


class MemoryStore:
    """Keeps records in memory, for a gateway without a place for them on disk."""

    def __init__(self, limits: RoomLimits = ROOM_LIMITS) -> None:
        self._limits = limits
        self._room = Room(limits)
        self._kept: dict[tuple[str, str], Written] = {}

    async def records(self, kind: str) -> tuple[Record, ...]:
        kept = (each for each in self._kept.values() if each.kind == kind)
        return tuple(map(record_of, sorted(kept, key=lambda each: each.name)))

    async def attachment(self, kind: str, name: str) -> bytes:
        kept = self._kept.get((kind, name))
        return b"" if kept is None else kept.attachment

    async def open_for_writing(self) -> None:
        """Return at once: memory is always writable."""

    async def write(self, *changes: Record | Removal) -> None:
        made = written(changes)
        self._room.check(made)
        for each in made:
            if each.text is None:
                self._kept.pop((each.kind, each.name), None)
            else:
                self._kept[each.kind, each.name] = each
        self._room.note(made)

    def backup(self) -> AbstractAsyncContextManager[ReadBackup]:
        """Refuse: a store in memory has no backup.

        Raises:
            StoreError: always.
        """
        raise StoreError(
            "this gateway keeps its objects only in memory, so there is nothing to back up"
        )

    async def aclose(self) -> None:
        self._kept.clear()
        self._room = Room(self._limits)
