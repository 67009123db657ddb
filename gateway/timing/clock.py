"""The clock of streams: the running loop's timers, or a test's."""

from __future__ import annotations

import asyncio
import time

from partway.protocol.connections.fair_turns import Cancellable as Timer
from partway.protocol.connections.peer_watch import Clock

__all__ = ["Clock", "LoopClock", "Timer"]


class LoopClock:
    """The running loop's timers, and a finer clock than uvloop's, which ticks in milliseconds."""

    #: Monotonic seconds.
    time = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self.call_later = asyncio.get_running_loop().call_later
