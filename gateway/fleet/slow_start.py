"""Why an instance that starts is not ready yet: what its ``/ping`` says, and where it listens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from partway.gateway.clock import Clock
from partway.gateway.fleet.limits import (
    SLOW_START_LOOK_AFTER,
    SLOW_START_LOOK_INTERVAL,
    SLOW_START_WARNING_AFTER,
    SLOW_START_WARNING_INTERVAL,
)
from partway.gateway.waiting import pause

#: The log's word for an instance that is not ready after seconds.
NOT_READY: Final = "instance is not ready"

#: Stands in a warning for the answer to the first ``/ping``.
NO_ANSWER_YET: Final = "its first /ping has no answer yet"


class SlowStart:
    """The reason for which one instance is not ready, while it starts.

    Args:
        clock: measures the times.
        warn: called with the seconds since the start and the reason, at each warning.
    """

    def __init__(self, clock: Clock, warn: Callable[[float, str], object]) -> None:
        self._clock = clock
        self._warn = warn
        self._ping = ""
        self._listening = ""

    @property
    def reason(self) -> str:
        """Why it is not ready; empty where nothing is known, or nothing is wrong."""
        return self._listening or self._ping

    def pinged(self, trouble: str | None) -> None:
        """Take what was wrong with a ``/ping``; None for 200."""
        if trouble != self._ping:  # what the last look has found may have changed with it
            self._listening = ""
        self._ping = trouble or ""

    async def watch(self, listening_trouble: Callable[[], Awaitable[str]]) -> None:
        """Look where its program listens, and warn, until this is cancelled.

        Args:
            listening_trouble: says that nothing listens on its port, and where its program listens
                instead; see :meth:`~.launchers.launcher.RunningContainer.listening_trouble`.
        """
        began = self._clock.time()
        warning_at = began + SLOW_START_WARNING_AFTER
        await pause(self._clock, SLOW_START_LOOK_AFTER)
        while True:
            self._listening = await listening_trouble()
            now = self._clock.time()
            if now >= warning_at:
                self._warn(now - began, self.reason or NO_ANSWER_YET)
                warning_at += SLOW_START_WARNING_INTERVAL
            await pause(self._clock, min(SLOW_START_LOOK_INTERVAL, warning_at - now))
