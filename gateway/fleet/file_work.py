"""Work on files, on threads: they are told to stop, and waited for."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from partway.gateway.clock import Clock
from partway.gateway.limits import MODEL_DATA_STOP_TIMEOUT
from partway.gateway.waiting import time_limit

_T = TypeVar("_T")


class WorkStopped(Exception):
    """Nobody wants the work any more; raised on its thread, seen by nobody else."""


class Wanted:
    """Whether work on a thread is still wanted."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def check(self) -> None:
        """Go on.

        Raises:
            WorkStopped: not any more.
        """
        if self._stopped.is_set():
            raise WorkStopped

    def stop(self) -> None:
        """Have the next check end the work."""
        self._stopped.set()


async def on_thread(clock: Clock, work: Callable[[Wanted], _T]) -> _T:
    """Work on a thread.

    Whoever is cancelled meanwhile waits until the thread has seen it, so that nothing is written
    any more. A thread that hangs in a system call, as on a file system whose server has gone, is
    left behind after MODEL_DATA_STOP_TIMEOUT.

    Args:
        clock: measures that time.
        work: looks at each of its steps whether it is wanted.
    """
    wanted = Wanted()
    thread = asyncio.ensure_future(asyncio.to_thread(work, wanted))
    try:
        await asyncio.wait([thread])  # which it survives, and shield() would tell of its end
    except asyncio.CancelledError:
        wanted.stop()
        thread.add_done_callback(_retrieve)
        try:
            async with time_limit(clock, MODEL_DATA_STOP_TIMEOUT):
                await asyncio.wait([thread])
        except TimeoutError:
            pass
        raise
    return thread.result()


def _retrieve(thread: asyncio.Future[_T]) -> None:
    """Say nothing of what has become of it."""
    if not thread.cancelled():
        thread.exception()


def make_read_only(folders: Sequence[Path]) -> None:
    """Take from everybody that may write to folders; of two, what holds the other comes first."""
    for folder in reversed(folders):
        folder.chmod(0o555)


def remove_tree(path: Path) -> None:
    """Remove a file or a folder, read-only or not; nothing if there is none.

    Raises:
        OSError: something of it cannot be removed.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    path.chmod(0o700)
    for parent, folders, _ in os.walk(path):
        for name in folders:
            folder = Path(parent, name)
            if not folder.is_symlink():
                folder.chmod(0o700)
    shutil.rmtree(path)
