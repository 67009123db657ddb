"""The look at a folder of a caller's right beside a launch that can take it by its path alone."""

from __future__ import annotations

from partway.gateway.fleet.launchers.launcher import LaunchError
from partway.gateway.storage.file_threads import on_thread
from partway.gateway.storage.limits import MODEL_DATA_LOOK_TIMEOUT
from partway.gateway.storage.places.pinned_path import OpenFolder, PathChanged
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit


async def check_callers_folder(folder: OpenFolder | None, clock: Clock) -> None:
    """Look whether a folder is still at its path, by no link.

    Args:
        folder: None where no caller of the API has named it.
        clock: measures how long the file system takes.

    Raises:
        LaunchError: a link or another folder is there, or nobody can tell.
    """
    if folder is None:
        return
    try:
        async with time_limit(clock, MODEL_DATA_LOOK_TIMEOUT):
            await on_thread(clock, lambda _: folder.pinned.check())
    except PathChanged as error:
        raise LaunchError(f"model data: {error}", passing=True) from None
    except OSError as error:  # a TimeoutError is one
        why = error.strerror or "no answer"
        raise LaunchError(
            f"model data: {folder.pinned.path} cannot be looked at: {why}", passing=True
        ) from None
