"""What a turn of the loop writes to many connections: held back, and sent together behind it."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Corked(Protocol):
    """A connection that can hold back bytes for a :class:`Cork`."""

    def uncork(self) -> None:
        """Send what is held back, if there is anything."""


class Cork:
    """Connections that hold back what they are to send, until all that the loop has to do is done.

    A write wakes whoever reads it, if they sleep. Between two answers that are worked out one after
    the other a peer falls asleep each time; of those that leave within microseconds the first wakes
    it for all. What that saves: ``docs/discussion/benchmarks.md``.

    Nobody waits longer than for what is ready in this turn of the loop: ``call_soon``'s calls come
    behind that. What there is to read is read behind them by asyncio's loop, and before by uvloop.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[Corked] = []

    def hold(self, connection: Corked) -> None:
        """Have a connection send what it holds back, soon; only within the running loop."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._uncork)
        self._waiting.append(connection)

    def _uncork(self) -> None:
        waiting, self._waiting = iter(self._waiting), []
        try:
            for connection in waiting:
                connection.uncork()
        finally:
            # None, unless that one has failed: transports raise nothing of the system's, but there
            # may be no memory.
            for connection in waiting:
                self.hold(connection)
