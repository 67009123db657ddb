"""Threads for the files of one folder, and the system's errors in words."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from partway.gateway.storage.file_threads import BoundedThreads, NoThreadFree, Wanted
from partway.gateway.storage.places.place import StorageFailed
from partway.gateway.timing.clock import Clock

_T = TypeVar("_T")

#: Errors of the system's that stay as they are until somebody changes something.
_LASTING: Final = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EACCES,
    errno.EPERM,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.EINVAL,
    errno.EROFS,
)


class FolderThreads:
    """Does work on the files of a folder, on a few threads, each within a time.

    Each folder of the settings has its own: a mount that is dead takes no other folder's threads.

    Args:
        clock: measures the times.
        most: threads at a time.
        seconds: for a thread, and for its work.
    """

    def __init__(self, clock: Clock, most: int, seconds: float) -> None:
        self._threads = BoundedThreads(clock, most)
        self._seconds = seconds

    async def run(
        self, path: Path | str, work: Callable[[Wanted], _T], more_seconds: float = 0
    ) -> _T:
        """Work on a file.

        Args:
            path: names it in an error in which the system does not.
            work: the work; a ``ValueError`` of it says why it cannot be done.
            more_seconds: that it may take beyond the usual time.

        Raises:
            StorageFailed: the work failed, or not even began, in time.
        """
        try:
            return await self._threads.run(self._seconds + more_seconds, work)
        except OSError as error:
            # A file that was opened within its folder has its bare name there.
            named = str(error.filename or "")
            raise StorageFailed(
                f"{named if named.startswith('/') else path}: {error.strerror or error}",
                passing=error.errno not in _LASTING,
                has_waited=isinstance(error, NoThreadFree),
            ) from error
        except ValueError as error:
            raise StorageFailed(str(error)) from error
