"""Removing containers from an engine that may be away or busy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from partway.gateway.fleet.launchers.engine_answers import (
    EngineAway,
    EngineRefusal,
)
from partway.gateway.fleet.launchers.engine_container import growing_waits
from partway.gateway.fleet.limits import ENGINE_REMOVAL_TIMEOUT, ENGINE_REMOVAL_TRIES, KILL_TIMEOUT
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import pause, time_limit
from partway.log_lines import LogLine

if TYPE_CHECKING:
    from partway.gateway.fleet.launchers.engine_client import EngineClient

log = logging.getLogger("partway.fleet")

#: How often to look for a container whose creation may still succeed.
_LOOKS: Final = 8


class EngineRemovals:
    """Removes containers, and retries as long as that may help."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(
        self,
        engine: EngineClient,
        name: str,
        over: Callable[[], object],
        creating: asyncio.Task[None] | None = None,
    ) -> asyncio.Task[None]:
        """Begin to remove a container.

        Args:
            engine: the container's engine.
            name: the container's name.
            over: called when it is removed, or left to the next start.
            creating: the task that creates it; it may still be running.
        """
        removal = asyncio.create_task(
            self._removed(engine, name, over, creating), name=f"removal of container {name}"
        )
        self._tasks.add(removal)
        removal.add_done_callback(self._tasks.discard)
        return removal

    async def wait(self, removals: Collection[asyncio.Task[None]]) -> None:
        """Wait for some removals, for at most as long as a kill takes."""
        if removals:
            with suppress(TimeoutError):
                async with time_limit(self._clock, KILL_TIMEOUT):
                    await asyncio.wait(removals)

    async def aclose(self) -> None:
        """End all removals; wait for them as long as one after the other succeeds."""
        with suppress(TimeoutError):
            while self._tasks:
                async with time_limit(self._clock, ENGINE_REMOVAL_TIMEOUT):
                    await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for removal in self._tasks:
            removal.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _removed(
        self,
        engine: EngineClient,
        name: str,
        over: Callable[[], object],
        creating: asyncio.Task[None] | None,
    ) -> None:
        certain = True
        if creating is not None:
            try:
                await creating
            except EngineRefusal:  # no container, or a foreign one of that name
                over()
                return
            except EngineAway:
                certain = False
        await self._ask_to_remove(engine, name, certain)
        over()

    async def _ask_to_remove(self, engine: EngineClient, name: str, certain: bool) -> None:
        """Retry until the container is removed, or until the engine has refused too often."""
        looks = refusals = 0
        for wait in growing_waits():
            try:
                if await engine.remove(name) or certain or looks == _LOOKS:
                    return
                looks += 1
            except EngineAway:
                pass  # try again later
            except EngineRefusal as refusal:  # such as 409: it is being removed
                refusals += 1
                about = {"container": name, "reason": str(refusal)}
                if refusals == ENGINE_REMOVAL_TRIES:
                    log.warning(
                        LogLine(
                            "container was not removed; the next start of the gateway removes it",
                            **about,
                        )
                    )
                    return
                if refusals == 1:
                    log.warning(LogLine("container is not removed yet", **about))
            await pause(self._clock, wait)
