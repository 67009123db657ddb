"""The memory window of a job: bodies of open requests, and answers that wait for earlier ones."""

from __future__ import annotations

import asyncio
from collections import deque

from partway.gateway.batch.limits import WAITING_BYTES, WAITING_FACTOR


class Window:
    """Places for bodies, each held from the cut of the body until its answer is written.

    The bodies of concurrent requests always get a place. More bodies get a place while all of them
    together hold few bytes, so a slow request does not hold up later ones. The first body of each
    file never waits for a place of another file, so places always become free.

    Args:
        asked: the number of concurrent requests.
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
        """Note that a place holds more or fewer bytes, or is free; see :class:`WindowPlace`."""
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
    """The place of one body, and then of its answer.

    Args:
        size: bytes of the body.
    """

    __slots__ = ("_free", "_size", "_window")

    def __init__(self, window: Window, size: int) -> None:
        self._window = window
        self._size = size
        self._free = False

    def holds(self, size: int) -> None:
        more, self._size = size - self._size, size
        self._window.changed(more)

    def free(self) -> None:
        """Give the place back; further calls do nothing."""
        if not self._free:
            self._free = True
            self._window.changed(-self._size, -1)
