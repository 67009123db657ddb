"""Work on files, on threads: they are told to stop, and waited for."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol, TypeVar

from partway.gateway.storage.limits import WORK_STOP_TIMEOUT, WORKING_THREADS
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import set_or_over, time_limit

_T = TypeVar("_T")

#: Of all loops of the process; one is taken until its thread has ended, also if it was left behind.
_threads: Final = threading.BoundedSemaphore(WORKING_THREADS)


class WorkStopped(Exception):
    """Nobody wants the work any more; raised on its thread, seen by nobody else."""


class Slots(Protocol):
    """As many as there may be threads; a semaphore is one."""

    def acquire(self, blocking: bool = True) -> bool:
        """Take one; returns whether there was any."""

    def release(self) -> None:
        """Give one back, on any thread."""


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


async def on_thread(
    clock: Clock,
    work: Callable[[Wanted], _T],
    slots: Slots | None = None,
    left_behind: Callable[[asyncio.Event], None] | None = None,
) -> _T:
    """Work on a thread of its own.

    Whoever is cancelled meanwhile waits until the thread has seen it, so that nothing is written
    any more. A thread that hangs in a system call, as on a file system whose server has gone, is
    left behind after WORK_STOP_TIMEOUT; it holds up neither others nor the process's end.

    Args:
        clock: measures that time.
        work: looks at each of its steps whether it is wanted.
        slots: one for each thread that there may be, of whoever brings its own; otherwise there
            are WORKING_THREADS.
        left_behind: is told of a thread that is, with what is set once that has ended.

    Raises:
        OSError: as many threads as there may be are at work, or the system gives no more.
        Exception: what the work raised.
    """
    loop = asyncio.get_running_loop()
    wanted, outcome, over = Wanted(), Future[_T](), asyncio.Event()
    taken = _threads if slots is None else slots

    def run() -> None:
        try:
            outcome.set_result(work(wanted))
        except BaseException as error:  # whatever it is, it is raised where it is waited for
            outcome.set_exception(error)
        finally:
            taken.release()
            with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                loop.call_soon_threadsafe(over.set)

    _start(run, taken)
    try:
        await over.wait()
    except asyncio.CancelledError:
        wanted.stop()
        try:
            await set_or_over(over, clock, WORK_STOP_TIMEOUT)
        finally:  # also for whoever is cancelled once more, and does not wait so long
            if left_behind is not None and not over.is_set():
                left_behind(over)
        raise
    return outcome.result()


class WritingThreads:
    """Threads that write to one place, and those of them that are left behind.

    What lies there is not to be touched before these have ended: they may go on writing.

    Args:
        clock: measures how long one that is to stop is waited for.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left_behind: list[asyncio.Event] = []

    @property
    def are_at_work(self) -> bool:
        """Whether one that was left behind has not ended."""
        return not all(over.is_set() for over in self._left_behind)

    async def work(self, work: Callable[[Wanted], _T]) -> _T:
        """Work on one of them, as :func:`on_thread`."""
        return await on_thread(self._clock, work, left_behind=self._left_behind.append)

    async def ended(self) -> None:
        """Wait for those that were left behind, which may take for ever."""
        for over in self._left_behind:
            await over.wait()


class NoThreadFree(OSError):
    """Every thread is taken: the work has not been begun, and may be tried again later."""


class BoundedThreads:
    """At most so many threads at a time, for work on files that leaves nothing open.

    A thread that hangs, as on a mount whose server has gone, is left behind and keeps its slot: no
    more than these hang, and nobody else's do.

    Args:
        clock: measures the times.
        most: threads at a time.
    """

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self._slots = asyncio.Semaphore(most)
        self._left_behind: set[_Slot] = set()

    async def run(self, seconds: float, work: Callable[[Wanted], _T]) -> _T:
        """Work on a thread.

        Args:
            seconds: to wait for a free thread, and as many for the work.
            work: what is to be done; looks at each of its steps whether it is wanted.

        Raises:
            NoThreadFree: none was free in time, or all of them hang.
            OSError: no answer in time, or what the work raised.
        """
        slot = await self._slot(seconds)
        try:
            async with time_limit(self._clock, seconds):
                return await on_thread(self._clock, work, slot)
        except TimeoutError as error:
            if error.errno is not None:
                raise  # the system's own
            raise OSError(
                errno.EIO,
                f"the file system has not answered for {seconds:g} s; its server must be reached "
                "again, or it be mounted anew",
            ) from None
        finally:
            if not slot.is_over:
                self._left_behind.add(slot)

    async def _slot(self, seconds: float) -> _Slot:
        words = f"{self._most} threads work on files of this folder already"
        if len(self._left_behind) == self._most:
            raise NoThreadFree(errno.EAGAIN, f"{words}, and all of them hang")
        try:
            async with time_limit(self._clock, seconds):
                await self._slots.acquire()
        except TimeoutError:
            raise NoThreadFree(errno.EAGAIN, f"{words}, none has ended for {seconds:g} s") from None
        return _Slot(self._is_over)

    def _is_over(self, slot: _Slot) -> None:
        self._left_behind.discard(slot)
        self._slots.release()


class _Slot:
    """The slot of one thread, which has been waited for; its end is told to the loop.

    Attributes:
        is_over: whether its thread has ended.

    Args:
        on_over: called with it then.
    """

    def __init__(self, on_over: Callable[[_Slot], object]) -> None:
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


def _start(run: Callable[[], None], slots: Slots) -> None:
    """Start a thread, a daemon: the loop's own are joined when it ends, also those that hang."""
    if not slots.acquire(blocking=False):
        raise OSError(errno.EAGAIN, "as many threads work on files already as there may be")
    try:
        threading.Thread(target=run, name="files", daemon=True).start()
    except RuntimeError as error:  # "can't start new thread"
        slots.release()
        raise OSError(errno.EAGAIN, str(error)) from None


def make_read_only(folders: Iterable[Path], wanted: Wanted) -> None:
    """Take from everybody that may write to folders.

    Args:
        folders: of two, what is in the other comes first.
        wanted: is asked before each.
    """
    for folder in folders:
        wanted.check()
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
