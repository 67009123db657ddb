"""The identity of a model's folder, by which the next gateway knows what a container has."""

from __future__ import annotations

from partway.gateway.storage.file_threads import on_thread
from partway.gateway.storage.limits import MODEL_DATA_LOOK_TIMEOUT
from partway.gateway.storage.model_data.model_data import HeldData
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit


async def identity_of_folder(data: HeldData | None, clock: Clock) -> tuple[int, int] | None:
    """Return device and inode of a model directory; None for none.

    Raises:
        OSError: the folder cannot be looked at, or not in time.
    """
    if data is None:
        return None
    if data.opened is not None:
        return data.opened.pinned.identity
    async with time_limit(clock, MODEL_DATA_LOOK_TIMEOUT):
        found = await on_thread(clock, lambda _: data.path.stat())
    return found.st_dev, found.st_ino
