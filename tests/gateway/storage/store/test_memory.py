"""partway.gateway.storage.store.memory: the store in memory."""

from __future__ import annotations

from pathlib import Path

from partway.gateway.storage.store.memory import MemoryStore
from partway.gateway.storage.store.room import ROOM_LIMITS, RoomLimits
from partway.gateway.storage.store.store import Record
from tests.gateway.storage.store.contract import StoreContract


class TestMemoryStore(StoreContract):
    async def opened(self, folder: Path, limits: RoomLimits = ROOM_LIMITS) -> MemoryStore:
        return MemoryStore(limits)

    async def test_after_its_end_nothing_is_left(self):
        store = MemoryStore()
        await store.write(Record("model", "a"))
        await store.aclose()
        assert await store.records("model") == ()
