"""Fair scheduling of handlers: which are woken in this turn of the loop, and which later."""

from __future__ import annotations

import asyncio
from collections import deque

from partway.container.limits import WAKES_PER_TURN, WAKES_PER_TURN_SHARE


class HandlerScheduler:
    """Wakes the handlers whose input has come, a limited number in one turn of the loop.

    A ``/ping``, a new connection or a Close needs a few turns of the loop. On a busy core all
    handlers get input in each turn, and a turn of a thousand answers takes 50 ms. Waiting handlers
    are woken in order, and further input for them is then answered together. The more of them wait,
    the more are woken in one turn, so that they share its cost.

    Args:
        at_least: least number of handlers woken in one turn.
        share: one in this many waiting handlers is woken in a turn, if that is more.
    """

    def __init__(
        self, *, at_least: int = WAKES_PER_TURN, share: int = WAKES_PER_TURN_SHARE
    ) -> None:
        self._call_soon = asyncio.get_running_loop().call_soon
        self._at_least = at_least
        self._share = share
        self._left = at_least
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._next_turn: asyncio.Handle | None = None

    @property
    def idle(self) -> bool:
        """Whether no handler waits, and no turn of the loop is scheduled."""
        return self._next_turn is None

    def wake(self, waiter: asyncio.Future[None]) -> bool:
        """Resolve a future that is not done; return False if it has to wait for a turn."""
        at_once = self._left > 0  # then no handler waits
        if at_once:
            self._left -= 1
            waiter.set_result(None)
        else:
            self._waiting.append(waiter)
        if self._next_turn is None:
            self._next_turn = self._call_soon(self._take_turn)
        return at_once

    def _take_turn(self) -> None:
        waiting = self._waiting
        idle = not waiting and self._left == self._at_least
        self._left = max(self._at_least, len(waiting) // self._share)
        while waiting and self._left:
            waiter = waiting.popleft()
            if not waiter.done():  # otherwise its reader has given up
                self._left -= 1
                waiter.set_result(None)
        self._next_turn = None if idle else self._call_soon(self._take_turn)
