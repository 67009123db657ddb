"""Checking a folder that an API caller named, right before a launch that uses its path."""

from __future__ import annotations

from partway.gateway.fleet.launchers.launcher import LaunchError
from partway.gateway.storage.file_threads import on_thread
from partway.gateway.storage.limits import MODEL_DATA_LOOK_TIMEOUT
from partway.gateway.storage.places.pinned_path import OpenFolder, PathChanged
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit


async def check_callers_folder(folder: OpenFolder | None, clock: Clock) -> None:
    """Check that the folder that an API caller named is still at its path, without following links.

    If ``folder`` is None, no API caller named a folder, and nothing is checked.

    Raises:
        LaunchError: a link or another folder is there, or the path cannot be read.
    """
    if folder is None:
        return
    try:
        async with time_limit(clock, MODEL_DATA_LOOK_TIMEOUT):
            await on_thread(clock, lambda _: folder.pinned.check())
    except PathChanged as error:
        raise LaunchError(f"model data: {error}", passing=True) from None
    except OSError as error:  # a TimeoutError is one
        why = error.strerror or "the file system does not answer"
        raise LaunchError(
            f"model data: the gateway cannot check {folder.pinned.path}: {why}", passing=True
        ) from None
