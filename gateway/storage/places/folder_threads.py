"""Threads for the files of one folder, which report the system's errors in words."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from partway.gateway.storage.file_threads import BoundedThreads, NoThreadFree, Wanted
from partway.gateway.storage.places.place import StorageFailed
from partway.gateway.timing.clock import Clock

_T = TypeVar("_T")

#: System errors that stay until somebody changes something.
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
    """Runs work on a folder's files, on a few threads and within time limits.

    Each folder of the settings has its own threads: a dead mount takes no other folder's threads.

    Args:
        seconds: the limit for a free thread, and again for its work.
    """

    def __init__(self, clock: Clock, most: int, seconds: float) -> None:
        self._threads = BoundedThreads(clock, most)
        self._seconds = seconds

    async def run(
        self, path: Path | str, work: Callable[[Wanted], _T], more_seconds: float = 0
    ) -> _T:
        """Run work on a file.

        Args:
            path: names the file in errors in which the system does not.
            work: the work; its ``ValueError`` says why the work cannot be done.
            more_seconds: time that is added to the usual limit.

        Raises:
            StorageFailed: the work failed, or did not begin or end in time.
        """
        try:
            return await self._threads.run(self._seconds + more_seconds, work)
        except OSError as error:
            # A file that was opened by its folder's descriptor has its bare name in the error.
            named = str(error.filename or "")
            raise StorageFailed(
                f"{named if named.startswith('/') else path}: {error.strerror or error}",
                passing=error.errno not in _LASTING,
                has_waited=isinstance(error, NoThreadFree),
            ) from error
        except ValueError as error:
            raise StorageFailed(str(error)) from error
