"""Checking a folder that an API caller named, right before a launch that uses its path."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path
from typing import Final

from partway.gateway.fleet.launchers.launcher import LaunchError
from partway.gateway.storage.disk_refusals import is_disk_refusal
from partway.gateway.storage.file_threads import on_thread
from partway.gateway.storage.files import temporary_folder
from partway.gateway.storage.limits import MODEL_DATA_LOOK_TIMEOUT
from partway.gateway.storage.places.pinned_path import OpenFolder, PathChanged
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit

#: Linux's file system in memory that every user may write to (shm_overview(7)).
_MEMORY: Final = Path("/dev/shm")  # noqa: S108


def empty_model_dir() -> tempfile.TemporaryDirectory[str]:
    """Make an empty, read-only folder; the caller must remove it.

    Raises:
        OSError: there is no room for it, neither in the temporary folder nor in memory.
    """
    try:
        made = _temporary(temporary_folder())
    except OSError as error:
        # A full disk must not prevent a start: an empty folder in memory is as good.
        if not (is_disk_refusal(error) and _MEMORY.is_dir()):
            raise
        made = _temporary(_MEMORY)
    Path(made.name).chmod(stat.S_IRUSR | stat.S_IXUSR | stat.S_IRGRP | stat.S_IXGRP)
    return made


def _temporary(below: Path) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(
        prefix="partway-model-",
        dir=below,
        ignore_cleanup_errors=True,  # a container may have used it
    )


async def check_callers_folder(folder: OpenFolder | None, clock: Clock) -> None:
    """Check that a folder is still at its path, without following links.

    Args:
        folder: None if no API caller has named it.
        clock: measures how long the file system takes.

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
        why = error.strerror or "no answer"
        raise LaunchError(
            f"model data: {folder.pinned.path} cannot be looked at: {why}", passing=True
        ) from None
