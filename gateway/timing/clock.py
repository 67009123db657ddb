"""The clock of streams: the running loop's timers, or a test's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from partway.protocol.connections.fair_turns import Cancellable as Timer
from partway.protocol.connections.peer_watch import Clock

__all__ = ["Clock", "LoopClock", "Timer"]


class LoopClock:
    """The running loop's timers, and a finer clock than uvloop's, which ticks in milliseconds."""

    #: Monotonic seconds.
    time = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        return self._loop.call_later(delay, callback, *args)
