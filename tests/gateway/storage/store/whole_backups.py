"""Backups of open stores, read to their end."""

from __future__ import annotations

from partway.gateway.storage.store.store import Store


async def whole_backup(store: Store) -> bytes:
    content = bytearray()
    async with store.backup() as read:
        while piece := await read():
            content += piece
    return bytes(content)
