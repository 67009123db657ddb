"""Fair turns of connections that have a backlog.

A read may hold tens of thousands of tiny frames. Its connection takes a turn, a fraction of a
millisecond to a few, and then lets others go first. Where hundreds of connections have a backlog,
one turn of each would still hold the loop for as many milliseconds.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from partway.protocol.limits import ROUND_SECONDS


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class Queued:
    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self._call = None

    def take(self) -> None:
        if self._call is not None:
            self._call()


class Rounds(threading.local):
    """The connections of a loop whose backlog waits; per thread, and so per loop.

    Rules:
        1. In one round of the loop connections take turns, in their order, each one turn at most,
           until ROUND_SECONDS are over; the rest go first in the next round. In between the loop
           reads, answers and accepts.
        2. A short read never waits: well-behaved clients send short reads. A read over LONG_READ
           waits its turn while others have a backlog.
        3. A task takes its turn between two rounds, one task each time. The round cannot measure
           the work of a task, and would wake all of them in one moment.
    """

    def __init__(self) -> None:
        self._waiting: deque[Queued] = deque()
        #: The places of tasks.
        self._tasks: deque[Queued] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None

    def soon(self, take_turn: Callable[[], None]) -> Queued:
        return self._queue(self._waiting, take_turn)

    def wake_soon(self, wake: Callable[[], None]) -> Queued:
        """Schedule the waking of a task after a later round (rule 3)."""
        return self._queue(self._tasks, wake)

    def busy(self) -> bool:
        """Whether any connection has a backlog, so that a long read waits its turn (rule 2)."""
        return self._any_waits() and self._loop is asyncio.get_running_loop()

    def _queue(self, places: deque[Queued], call: Callable[[], None]) -> Queued:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # the entries of a loop that has ended are void
            self._loop = loop
            self._waiting.clear()
            self._tasks.clear()
        is_first = not self._any_waits()
        place = Queued(call)
        places.append(place)
        if is_first:
            loop.call_soon(self._go_round)
        return place

    def _any_waits(self) -> bool:
        return bool(self._waiting or self._tasks)

    def _go_round(self) -> None:
        until = time.monotonic() + ROUND_SECONDS
        try:
            for _ in range(len(self._waiting)):
                _take_first(self._waiting)
                if time.monotonic() >= until:
                    break
            if self._tasks:
                _take_first(self._tasks)
        finally:
            if self._any_waits():
                asyncio.get_running_loop().call_soon(self._go_round)


def _take_first(places: deque[Queued]) -> None:
    """Take the first turn; it stays in the queue meanwhile, so that the queue is not empty."""
    try:
        places[0].take()
    finally:
        places.popleft()


rounds = Rounds()
