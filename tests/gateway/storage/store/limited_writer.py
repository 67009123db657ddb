"""Writes to a store while no file of this process may grow; prints what becomes of it, as JSON."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from pathlib import Path

from partway.gateway.storage.store.sqlite import SqliteStore
from partway.gateway.storage.store.store import Record, Removal, StoreError
from partway.gateway.timing.clock import LoopClock

#: From where on a file may not grow, in bytes: in the first pages of a large record, and later.
LIMITS = (40_000, 100_000, 400_000)


async def main() -> None:
    path = Path(sys.argv[1])
    store = await SqliteStore.opened(path, LoopClock())
    await store.write(Record("model", "small"))
    said: dict[str, list[object]] = {"refused": [], "meanwhile": [], "log": []}
    large = Record("model", "large", {"a": "x" * 500_000})
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in LIMITS:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            await store.write(Record("model", "other"), large, Removal("model", "small"))
        except StoreError as error:
            said["refused"].append(str(error))
        said["meanwhile"].append([each.name for each in await store.records("model")])
        said["log"].append(path.with_name("store.db-wal").stat().st_size)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await store.write(large)
    await store.aclose()
    again = await SqliteStore.opened(path, LoopClock())
    said["afterwards"] = [each.name for each in await again.records("model")]
    await again.aclose()
    print(json.dumps(said))


asyncio.run(main())
