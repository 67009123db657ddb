"""Work on files on a few threads of its own: each waits for its turn, and has only so long."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable
from typing import TypeVar

from partway.gateway.clock import Clock
from partway.gateway.fleet.file_work import Wanted, on_thread
from partway.gateway.waiting import time_limit

_T = TypeVar("_T")


class FileTurns:
    """Threads for works on files, each of which leaves nothing open.

    A thread that hangs, as on a mount whose server has gone, is left behind and keeps its place: no
    more than these hang, and nobody else's do.

    Args:
        clock: measures the times.
        most: threads at a time.
    """

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._turns = asyncio.Semaphore(most)
        self._slots = threading.BoundedSemaphore(most)

    async def run(self, seconds: float, work: Callable[[Wanted], _T]) -> _T:
        """Work on a thread.

        Args:
            seconds: to wait for a turn, and for the work.
            work: what is to be done; looks at each of its steps whether it is wanted.

        Raises:
            OSError: no answer in time, no thread left, or what the work raised.
        """
        try:
            async with time_limit(self._clock, seconds), self._turns:
                return await on_thread(self._clock, work, self._slots)
        except TimeoutError as error:
            if error.errno is not None:
                raise  # the system's own
            raise OSError(
                errno.EIO,
                f"the file system has not answered for {seconds:g} s; its server must be reached "
                "again, or it be mounted anew",
            ) from None
