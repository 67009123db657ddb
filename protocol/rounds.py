"""Rounds of a loop: whose backlog is worked off now, and whose in a later round.

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

from partway.protocol.limits import ROUND_SECONDS


class Queued:
    """A connection's place in the queue."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Give the place up."""
        self._call = None

    def take(self) -> None:
        """Work, unless the place was given up."""
        if self._call is not None:
            self._call()


class Rounds(threading.local):
    """The connections of a loop whose backlog waits; by thread, and so by loop.

    Rules:
        1. In one round of the loop connections take turns, in their order, each one turn at most,
           until ROUND_SECONDS are over; whoever is left goes first in the next round. In between
           the loop reads, answers and accepts.
        2. A short read never waits: it is what those send who keep their pace. One over LONG_READ
           waits its turn while others have a backlog.
    """

    def __init__(self) -> None:
        self._waiting: deque[Queued] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None

    def soon(self, take_turn: Callable[[], None]) -> Queued:
        """Have a turn taken in a round to come."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # those of a loop that has ended wait for nothing
            self._loop = loop
            self._waiting.clear()
        turn = Queued(take_turn)
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            loop.call_soon(self._go_round)
        return turn

    def busy(self) -> bool:
        """Whether somebody has a backlog, so that a long read waits its turn (rule 2)."""
        return bool(self._waiting) and self._loop is asyncio.get_running_loop()

    def _go_round(self) -> None:
        waiting = self._waiting
        until = time.monotonic() + ROUND_SECONDS
        try:
            for _ in range(len(waiting)):
                # Left in the queue meanwhile: whoever asks sees that it is not empty.
                turn = waiting[0]
                try:
                    turn.take()
                finally:
                    waiting.popleft()
                if time.monotonic() >= until:
                    break
        finally:
            if waiting:
                asyncio.get_running_loop().call_soon(self._go_round)


rounds = Rounds()
