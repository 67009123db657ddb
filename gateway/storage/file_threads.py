"""Work on files in threads, which can be told to stop and are waited for."""

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

#: For all event loops of the process. A slot is taken until its thread ends, even if the thread was
#: left behind.
_threads: Final = threading.BoundedSemaphore(WORKING_THREADS)


class WorkStopped(Exception):
    """The work was stopped; raised only on the work's own thread."""


class Slots(Protocol):
    """A limited number of threads; a semaphore fits."""

    def acquire(self, blocking: bool = True) -> bool:
        """Take a slot; return False if none is free."""

    def release(self) -> None:
        """Give a slot back; may be called on any thread."""


class Wanted:
    """A flag that tells a thread whether its work is still wanted."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def check(self) -> None:
        """Return if the work is wanted.

        Raises:
            WorkStopped: the work was stopped.
        """
        if self._stopped.is_set():
            raise WorkStopped

    def stop(self) -> None:
        """Make the next check raise WorkStopped."""
        self._stopped.set()


async def on_thread(
    clock: Clock,
    work: Callable[[Wanted], _T],
    slots: Slots | None = None,
    left_behind: Callable[[asyncio.Event], None] | None = None,
) -> _T:
    """Run work on a thread of its own.

    A cancelled caller waits until the thread has stopped, so that nothing is written after the
    cancellation. A thread that hangs in a system call, as on a file system whose server is gone, is
    left behind after WORK_STOP_TIMEOUT. It delays neither other callers nor the process's end.

    Args:
        clock: measures WORK_STOP_TIMEOUT.
        work: checks at each of its steps whether it is wanted.
        slots: the caller's own slots for threads; None to use the WORKING_THREADS of the process.
        left_behind: called if the thread is left behind, with an event that is set when it ends.

    Raises:
        OSError: no slot is free, or the system gives no more threads.
        Exception: what the work raised.
    """
    loop = asyncio.get_running_loop()
    wanted, outcome, over = Wanted(), Future[_T](), asyncio.Event()
    taken = _threads if slots is None else slots

    def run() -> None:
        try:
            outcome.set_result(work(wanted))
        except BaseException as error:  # the error is raised to the caller that waits
            outcome.set_exception(error)
        finally:
            taken.release()
            with suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(over.set)

    _start(run, taken)
    try:
        await over.wait()
    except asyncio.CancelledError:
        wanted.stop()
        try:
            await set_or_over(over, clock, WORK_STOP_TIMEOUT)
        finally:  # also for a caller that is cancelled again and does not wait so long
            if left_behind is not None and not over.is_set():
                left_behind(over)
        raise
    return outcome.result()


class WritingThreads:
    """Threads that write to one place, including the threads that were left behind.

    The place must not be touched before these have ended: they may go on writing.

    Args:
        clock: measures how long a stopped thread is waited for.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left_behind: list[asyncio.Event] = []

    @property
    def are_at_work(self) -> bool:
        """Whether a thread that was left behind still runs."""
        return not all(over.is_set() for over in self._left_behind)

    async def work(self, work: Callable[[Wanted], _T]) -> _T:
        """Run work on a thread; see :func:`on_thread`."""
        return await on_thread(self._clock, work, left_behind=self._left_behind.append)

    async def ended(self) -> None:
        """Wait for the threads that were left behind, which may take for ever."""
        for over in self._left_behind:
            await over.wait()


class NoThreadFree(OSError):
    """Every thread is taken: the work has not begun, and may be tried again later."""


class BoundedThreads:
    """A bounded number of threads, for work on files that leaves nothing open.

    A thread that hangs, as on a mount whose server is gone, is left behind and keeps its slot. So
    only these threads can hang, and no others of the process.
    """

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self._slots = asyncio.Semaphore(most)
        self._left_behind: set[_Slot] = set()

    async def run(self, seconds: float, work: Callable[[Wanted], _T]) -> _T:
        """Run work on a thread.

        Args:
            seconds: the limit for a free thread, and again for the work.
            work: checks at each of its steps whether it is wanted.

        Raises:
            NoThreadFree: no thread was free in time, or all of them hang.
            OSError: the work took too long, or raised this.
        """
        slot = await self._slot(seconds)
        try:
            async with time_limit(self._clock, seconds):
                return await on_thread(self._clock, work, slot)
        except TimeoutError as error:
            if error.errno is not None:
                raise  # raised by the system
            raise OSError(
                errno.EIO,
                f"the file system has not answered for {seconds:g} s; restore the connection "
                "with its server, or mount it again",
            ) from None
        finally:
            if not slot.is_over:
                self._left_behind.add(slot)

    async def _slot(self, seconds: float) -> _Slot:
        words = f"{self._most} threads already work on files of this folder"
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
    """The slot of one thread; it tells the event loop when the thread has ended.

    Attributes:
        is_over: whether the thread has ended.

    Args:
        on_over: called with the slot then, on the event loop.
    """

    def __init__(self, on_over: Callable[[_Slot], object]) -> None:
        self.is_over = False
        self._on_over = on_over
        self._loop = asyncio.get_running_loop()

    def acquire(self, blocking: bool = True) -> bool:
        """Return True: the slot was taken before."""
        return True

    def release(self) -> None:
        """Tell the event loop that the thread has ended; may be called on any thread."""
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            self._loop.call_soon_threadsafe(self._over)

    def _over(self) -> None:
        self.is_over = True
        self._on_over(self)


def _start(run: Callable[[], None], slots: Slots) -> None:
    """Start a daemon thread: the loop's own threads are joined at its end, even if they hang."""
    if not slots.acquire(blocking=False):
        raise OSError(
            errno.EAGAIN, "the limit of threads that work on files is reached; try again later"
        )
    try:
        threading.Thread(target=run, name="files", daemon=True).start()
    except RuntimeError as error:  # "can't start new thread"
        slots.release()
        raise OSError(errno.EAGAIN, str(error)) from None


def make_read_only(folders: Iterable[Path], wanted: Wanted) -> None:
    """Make folders read-only for all users.

    Args:
        folders: the inner folders come before the outer ones.
        wanted: checked before each folder.
    """
    for folder in folders:
        wanted.check()
        folder.chmod(0o555)


def remove_tree(path: Path) -> None:
    """Remove a file or a folder, read-only or not; do nothing if it is missing.

    Raises:
        OSError: a part cannot be removed.
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
