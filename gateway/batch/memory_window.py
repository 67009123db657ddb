"""How much of a job is in memory: bodies that are asked with, and answers that wait for others."""

from __future__ import annotations

import asyncio
from collections import deque

from partway.gateway.batch.limits import WAITING_BYTES, WAITING_FACTOR


class Window:
    """Places for bodies, from when they are cut until their answers are written.

    As many as are asked at a time always find one. More do while what all hold is little: so a
    request that is slow holds none up that come behind it. Of each file the first that has a place
    needs none of another's to come to its end, so places always come free.

    Args:
        asked: how many are asked at a time.
    """

    def __init__(self, asked: int) -> None:
        self._asked = asked
        self._places = 0
        self._bytes = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self, size: int) -> WindowPlace:
        """Wait for a place.

        Args:
            size: bytes of the body.
        """
        while not self._has_room:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                self._wake()
                raise
            finally:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
        self._places += 1
        self._bytes += size
        self._wake()
        return WindowPlace(self, size)

    @property
    def _has_room(self) -> bool:
        most = self._asked * WAITING_FACTOR
        return self._places < self._asked or (self._places < most and self._bytes < WAITING_BYTES)

    def changed(self, more: int, places: int = 0) -> None:
        """Note that a place holds more bytes, or less, or is free; see :class:`WindowPlace`."""
        self._bytes += more
        self._places += places
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self._has_room:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return


class WindowPlace:
    """One place, of a body and then of its answer.

    Args:
        window: whose it is.
        size: bytes that it holds.
    """

    __slots__ = ("_free", "_size", "_window")

    def __init__(self, window: Window, size: int) -> None:
        self._window = window
        self._size = size
        self._free = False

    def holds(self, size: int) -> None:
        """Note how many bytes it holds now."""
        more, self._size = size - self._size, size
        self._window.changed(more)

    def free(self) -> None:
        """Give it back; a second time nothing happens."""
        if not self._free:
            self._free = True
            self._window.changed(-self._size, -1)
