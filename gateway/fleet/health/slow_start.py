"""Slow starts: waiting until a launched instance is ready, and the reason why it is not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from partway.gateway.fleet.health.rules import worst
from partway.gateway.fleet.health.startup_pace import ask_until_ready
from partway.gateway.fleet.launchers.launcher import RunningContainer
from partway.gateway.fleet.limits import (
    SLOW_START_LOOK_AFTER,
    SLOW_START_LOOK_INTERVAL,
    SLOW_START_WARNING_AFTER,
    SLOW_START_WARNING_INTERVAL,
)
from partway.gateway.network.dialling import OutOfDescriptors
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import pause
from partway.log_lines import LogLine

log = logging.getLogger("partway.fleet")

#: Stands in a warning before the first ``/ping`` has an answer.
NO_ANSWER_YET: Final = "its first /ping has no answer yet"


class SlowStart:
    """The reason why one starting instance is not ready yet.

    Args:
        warn: called at each warning with the seconds since the start and the reason.
    """

    def __init__(self, clock: Clock, warn: Callable[[float, str], object]) -> None:
        self._clock = clock
        self._warn = warn
        self._ping = ""
        self._listening = ""

    @property
    def reason(self) -> str:
        """Why the instance is not ready; empty if nothing is known or wrong."""
        return self._listening or self._ping

    @property
    def said(self) -> str:
        """The reason, or a text for the time before the first answer."""
        return self.reason or NO_ANSWER_YET

    async def until_ready(
        self,
        running: RunningContainer,
        ping: Callable[[], Awaitable[Mapping[str, str | None]]],
        instance: str,
    ) -> None:
        """Wait until all launched containers answer with 200 (clauses 1.1-2, 1.1-3).

        ``ping`` asks each container once. It returns what was wrong by host name, None for 200.

        Raises:
            LaunchError: another program answers at its address.
        """

        async def is_ready() -> bool:
            try:
                trouble = worst(await ping())
            except OutOfDescriptors as error:
                trouble = f"it could not be pinged: {error}"
            self.pinged(trouble)
            return trouble is None

        watching = asyncio.create_task(self._watch(running, instance))
        try:
            await ask_until_ready(is_ready, self._clock)
        finally:
            watching.cancel()
            await asyncio.wait((watching,))
        await running.verify()

    async def _watch(self, running: RunningContainer, instance: str) -> None:
        """Watch the start; a fault of the gateway here ends only the watch."""
        try:
            await self.watch(running.listening_trouble)
        except Exception:  # the instance may still become ready
            log.exception(
                LogLine(
                    "the gateway failed to find out why an instance is not ready", instance=instance
                )
            )

    def pinged(self, trouble: str | None) -> None:
        """Take the result of a ``/ping``; None for 200."""
        if trouble != self._ping:  # the last look at the listening port may be outdated
            self._listening = ""
        self._ping = trouble or ""

    async def watch(self, listening_trouble: Callable[[], Awaitable[str]]) -> None:
        """Find out where the program listens, and warn, until cancelled.

        Args:
            listening_trouble: says that nothing listens on the port, and where the program listens
                instead; see :meth:`~.launchers.launcher.RunningContainer.listening_trouble`.
        """
        began = self._clock.time()
        warning_at = began + SLOW_START_WARNING_AFTER
        await pause(self._clock, SLOW_START_LOOK_AFTER)
        while True:
            self._listening = await listening_trouble()
            now = self._clock.time()
            if now >= warning_at:
                self._warn(now - began, self.said)
                warning_at += SLOW_START_WARNING_INTERVAL
            await pause(self._clock, min(SLOW_START_LOOK_INTERVAL, warning_at - now))
