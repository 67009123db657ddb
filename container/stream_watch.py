"""Watching a stream: is its client there, and for how long has nothing moved."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

#: Linux's state of a connection that is over: it was reset, or gave up (``tcp_states.h``).
_TCP_CLOSE: Final = 7


def is_over(connection: socket.socket | None) -> bool:
    """Whether TCP knows that a connection is over; False where the system does not tell.

    A reset comes ahead of what has not been read; no event loop hears of it before that.

    Args:
        connection: the transport's socket; None if it has none.
    """
    if connection is None or not hasattr(socket, "TCP_INFO"):  # Linux has it
        return False
    try:
        state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    except OSError:
        return False  # no TCP, or closed here already
    return state == _TCP_CLOSE


class ProgressWatch:
    """Looks from time to time at what should move, and says for how long it has not.

    Args:
        loop: whose time and timers are used.
        measure: gives what differs once something has moved.
        looked: called at each look with the seconds since the last look that saw a movement, or
            since the beginning; 0.0 if this one saw one.
    """

    __slots__ = ("_every", "_looked", "_loop", "_measure", "_seen", "_since", "_timer")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        measure: Callable[[], object],
        looked: Callable[[float], object],
    ) -> None:
        self._loop = loop
        self._measure = measure
        self._looked = looked
        self._every = 0.0
        self._seen: object = None
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, every: float) -> None:
        """Look each so many seconds from now on, until :meth:`stop`."""
        self.stop()
        self._every = every
        self._seen = self._measure()
        self._since = self._loop.time()
        self._look_later()

    def stop(self) -> None:
        """Look no more, if anybody did."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_later(self) -> None:
        self._timer = self._loop.call_later(self._every, self._look)

    def _look(self) -> None:
        seen, now = self._measure(), self._loop.time()
        if seen != self._seen:
            self._seen, self._since = seen, now
        self._look_later()
        self._looked(now - self._since)
