"""A thread for disk operations, which run one after the other and never block the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from partway.gateway.storage.store.limits import (
    STORE_BEGIN_TIMEOUT,
    STORE_CLOSE_TIMEOUT,
    STORE_WAITING,
)
from partway.gateway.storage.store.store import StoreError
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit

_T = TypeVar("_T")


class DiskThread:
    """Runs work on a thread of its own, in the order of the calls.

    The thread may hang in a system call, as on a file system whose server is gone. It is a daemon,
    so that it does not keep the process from ending.

    Args:
        clock: measures how long work waits to begin, and how long the close takes.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._takes_more = True
        self._last: Future[None] | None = None

    async def run(self, work: Callable[[], _T]) -> _T:
        """Run work on the thread.

        Work that has begun runs to its end, even if the caller is cancelled. Otherwise nobody could
        say whether it was done. Work that has not begun by the cancellation is dropped.

        Args:
            work: the work, which is not interrupted.

        Returns:
            The result of the work.

        Raises:
            StoreError: the work is not begun: the disk does not answer, or the thread has ended.
            Exception: what the work raised.
        """
        if not self._takes_more:
            raise StoreError("the store is closed")
        if self._asked.qsize() >= STORE_WAITING:
            raise StoreError(
                f"{STORE_WAITING} reads and changes already wait for the disk of the store; "
                "try again later"
            )
        outcome = self._ask(work)
        over = _over(outcome)
        try:
            try:
                async with time_limit(self._clock, STORE_BEGIN_TIMEOUT):
                    await over.wait()
            except TimeoutError:
                if outcome.cancel():
                    raise StoreError(
                        f"the disk of the store has not answered for {STORE_BEGIN_TIMEOUT:g} s; "
                        "check it, or the server of its file system, and try again"
                    ) from None
                await over.wait()
        except asyncio.CancelledError:
            outcome.cancel()
            raise
        return outcome.result()

    def do_waiting(self) -> None:
        """Do the work that waits now. Long work calls this on the thread, between its steps.

        Raises:
            StoreError: the store is closing, so the long work must end too.
        """
        # Counted first: the last work is put in only after the thread takes no more.
        waiting = self._asked.qsize()
        if not self._takes_more:
            raise StoreError("the store is closed")
        for _ in range(waiting):
            if (asked := self._asked.get()) is not None:
                _do(*asked)

    async def aclose(self, last: Callable[[], None]) -> None:
        """Do the waiting work, then the last work, and end.

        Args:
            last: the last work; it is skipped if the thread never worked, or if this is called
                again.

        Raises:
            TimeoutError: this takes longer than STORE_CLOSE_TIMEOUT; the thread is left behind.
        """
        self._takes_more = False
        if self._thread is None:
            return
        if self._last is None:
            self._last = self._ask(last)
            self._asked.put(None)
        over = _over(self._last)
        async with time_limit(self._clock, STORE_CLOSE_TIMEOUT):
            await over.wait()

    def _ask(self, work: Callable[[], _T]) -> Future[_T]:
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="store", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # "can't start new thread"
                raise StoreError(f"the store cannot start a thread: {error}") from None
            self._thread = thread
        outcome = Future[_T]()
        self._asked.put((work, outcome))
        return outcome

    def _work(self) -> None:
        while (asked := self._asked.get()) is not None:
            _do(*asked)


def _do(work: Callable[[], Any], outcome: Future[Any]) -> None:
    if not outcome.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # whatever it is, it is raised where it is waited for
        outcome.set_exception(error)
    else:
        outcome.set_result(result)


def _over(outcome: Future[Any]) -> asyncio.Event:
    """Return an event of the running loop that is set once there is an outcome."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: Future[Any]) -> None:
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            loop.call_soon_threadsafe(over.set)

    outcome.add_done_callback(tell)
    return over
