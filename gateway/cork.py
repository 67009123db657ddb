"""What a turn of the loop writes to many connections: held back, and sent together at its end."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Corked(Protocol):
    """A connection with something to send."""

    def uncork(self) -> None:
        """Send what is held back."""


class Cork:
    """Connections that hold back what a turn of the loop has written, until those at work are done.

    A write wakes whoever reads it, if they sleep, and that is a sixth of what a small request
    costs. Between two answers that are worked out one after the other a peer falls asleep each
    time; when they leave within microseconds it is woken by the first. So is what several requests
    ask of one container. Nobody waits longer than for the others of the same turn.

    """

    __slots__ = ("_corked",)

    def __init__(self) -> None:
        self._corked: list[Corked] = []

    def hold(self, connection: Corked) -> None:
        """Have a connection send what it has, once this turn is over."""
        if not self._corked:
            asyncio.get_running_loop().call_soon(self._uncork)
        self._corked.append(connection)

    def _uncork(self) -> None:
        corked, self._corked = self._corked, []
        for connection in corked:
            connection.uncork()
