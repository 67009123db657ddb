"""The identity of a model's folder, by which the next gateway knows what a container has."""

from __future__ import annotations

from partway.gateway.fleet.launchers.launcher import Order
from partway.gateway.storage.file_threads import on_thread
from partway.gateway.storage.limits import MODEL_DATA_LOOK_TIMEOUT
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit


async def identity_of_folder(order: Order, clock: Clock) -> tuple[int, int] | None:
    """Return device and inode of an order's model directory; None for none.

    Raises:
        OSError: the folder cannot be looked at, or not in time.
    """
    if order.opened is not None:
        return order.opened.pinned.identity
    directory = order.model_dir
    if directory is None:
        return None
    async with time_limit(clock, MODEL_DATA_LOOK_TIMEOUT):
        found = await on_thread(clock, lambda _: directory.stat())
    return found.st_dev, found.st_ino
