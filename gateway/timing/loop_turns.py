"""Work that is due all at once, a little of it in each turn of the loop."""

from __future__ import annotations

import asyncio
from collections import deque


class LoopTurns:
    """The turns of a loop, in each of which only so many of those who wait go on, in their order.

    Nobody waits by the clock: where the loop has nothing else to do, its turns follow each other.

    Args:
        per_turn: how many go on in a turn.
    """

    def __init__(self, per_turn: int) -> None:
        self._per_turn = per_turn
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def next(self) -> None:
        """Wait for a turn of the running loop, which must be the same each time."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._take_turn)
        self._waiting.append(turn)
        await turn

    def _take_turn(self) -> None:
        left = self._per_turn
        while left and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else whoever waited has been cancelled
                turn.set_result(None)
                left -= 1
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._take_turn)
