"""Folders that callers of the API may name, and that are not there."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress

from partway.gateway.settings.settings import Settings
from partway.gateway.storage.file_threads import on_thread
from partway.gateway.storage.files import is_folder
from partway.gateway.storage.limits import MODEL_DATA_LOOK_TIMEOUT
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit
from partway.log_lines import LogLine

#: With what else the gateway says at its start.
log = logging.getLogger("partway.serve")


async def tell_missing_folders(loaded: Settings, clock: Clock) -> None:
    """Log which folders are not there that callers of the API may name.

    Nothing fails of it: they may be mounted later. One that nobody answers for is not told of.
    """
    with suppress(OSError):  # a TimeoutError is one
        async with time_limit(clock, MODEL_DATA_LOOK_TIMEOUT):
            for each in await on_thread(clock, lambda _: [*missing_folders(loaded)]):
                log.warning(LogLine("a folder of the settings is not there", reason=each))


def missing_folders(loaded: Settings) -> Iterator[str]:
    """Yield a line for each of these folders that is not there."""
    for setting in ("local_roots", "local_results"):
        for folder in getattr(loaded, setting):
            if not is_folder(folder):
                yield f"api.{setting}: {folder}: there is no such folder; it must be made"
