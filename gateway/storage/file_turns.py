"""Work on files on a few threads of its own: each waits for its turn, and has only so long."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from partway.gateway.clock import Clock
from partway.gateway.storage.file_threads import Wanted, on_thread
from partway.gateway.waiting import time_limit

_T = TypeVar("_T")


class NoTurn(OSError):
    """Every thread is taken: the work has not been begun, and may have its turn later."""


class FileTurns:
    """Threads for works on files, each of which leaves nothing open.

    A thread that hangs, as on a mount whose server has gone, is left behind and keeps its turn: no
    more than these hang, and nobody else's do.

    Args:
        clock: measures the times.
        most: threads at a time.
    """

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self._turns = asyncio.Semaphore(most)
        self._left_behind: set[_Turn] = set()

    async def run(self, seconds: float, work: Callable[[Wanted], _T]) -> _T:
        """Work on a thread.

        Args:
            seconds: to wait for a turn, and as many for the work.
            work: what is to be done; looks at each of its steps whether it is wanted.

        Raises:
            NoTurn: it had none in time, or all the threads hang.
            OSError: no answer in time, or what the work raised.
        """
        turn = await self._turn(seconds)
        try:
            async with time_limit(self._clock, seconds):
                return await on_thread(self._clock, work, turn)
        except TimeoutError as error:
            if error.errno is not None:
                raise  # the system's own
            raise OSError(
                errno.EIO,
                f"the file system has not answered for {seconds:g} s; its server must be reached "
                "again, or it be mounted anew",
            ) from None
        finally:
            if not turn.is_over:
                self._left_behind.add(turn)

    async def _turn(self, seconds: float) -> _Turn:
        words = f"{self._most} threads work on files of this folder already"
        if len(self._left_behind) == self._most:
            raise NoTurn(errno.EAGAIN, f"{words}, and all of them hang")
        try:
            async with time_limit(self._clock, seconds):
                await self._turns.acquire()
        except TimeoutError:
            raise NoTurn(errno.EAGAIN, f"{words}, none has ended for {seconds:g} s") from None
        return _Turn(self._is_over)

    def _is_over(self, turn: _Turn) -> None:
        self._left_behind.discard(turn)
        self._turns.release()


class _Turn:
    """The slot of one thread, which has been waited for; its end is told to the loop.

    Attributes:
        is_over: whether its thread has ended.

    Args:
        on_over: called with it then.
    """

    def __init__(self, on_over: Callable[[_Turn], object]) -> None:
        self.is_over = False
        self._on_over = on_over
        self._loop = asyncio.get_running_loop()

    def acquire(self, blocking: bool = True) -> bool:
        """Take it; it is there."""
        return True

    def release(self) -> None:
        """Tell that the thread has ended; called on any thread."""
        with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
            self._loop.call_soon_threadsafe(self._over)

    def _over(self) -> None:
        self.is_over = True
        self._on_over(self)
