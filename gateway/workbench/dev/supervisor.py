"""The supervisor: it runs one container at a time, and restarts it when files change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from partway.gateway.fleet.launchers.process import Command
from partway.gateway.fleet.processes.leash import Leash
from partway.gateway.timing.deadlines import first_of
from partway.gateway.workbench.dev.changes import Changes
from partway.gateway.workbench.dev.container import Container

log = logging.getLogger("partway.dev")

#: The exit status of a container's command whose arguments are wrong.
ASKED_WRONGLY = 2


class Supervisor:
    """Keeps one container running, and starts it again when files change.

    Args:
        leash: ends the container if this process dies.
        changes: the changes that restart the container; None to start it only once.
    """

    def __init__(
        self,
        command: Command,
        ready_line: str,
        leash: Leash,
        changes: Changes | None,
        say: Callable[[str], None],
    ) -> None:
        self._command = command
        self._ready_line = ready_line
        self._leash = leash
        self._changes = changes
        self._say = say
        self._container: Container | None = None

    async def run(self, stop: asyncio.Event) -> int:
        """Start the container, and again after each change; return the command's exit status.

        The status is 0 once ``stop`` is set. The container then still runs, for its streams end
        first.

        Raises:
            WatchFailed: watching the files has failed.
        """
        first = True
        while True:
            container = Container(self._command, self._ready_line, self._say_ready, self._leash)
            await container.start()
            self._container = container
            await self._news(stop, container.over)
            if container.over.is_set():
                if self._changes is None:
                    return _status_of(container, stop)
                if first and not container.ready and container.ended.status == ASKED_WRONGLY:
                    return ASKED_WRONGLY  # no change of a file mends the command's arguments
                await self._wait_for_change(container, stop)
            if stop.is_set():
                return 0
            assert self._changes is not None, "else it is over, or to stop"
            self._say(f"reloading: {', '.join(self._changes.take())}")
            await container.end()
            if stop.is_set():
                return 0
            first = False

    async def end(self) -> None:
        if self._container is not None:
            await self._container.end()

    def kill(self) -> None:
        """Kill the container, as a second signal asks."""
        if self._container is not None:
            self._container.kill()

    def _say_ready(self) -> None:
        self._say("ready")

    async def _wait_for_change(self, container: Container, stop: asyncio.Event) -> None:
        assert self._changes is not None, "asked only where there are any"
        if not stop.is_set() and not self._changes.some.is_set():
            log.error("the container %s; waiting for a change of a .py file", container.ended)
            await self._news(stop)

    async def _news(self, *events: asyncio.Event) -> None:
        """Wait for one of the events, or for a change of a file."""
        await first_of(*events, *(() if self._changes is None else (self._changes.some,)))


def _status_of(container: Container, stop: asyncio.Event) -> int:
    if stop.is_set():
        return 0
    status = container.ended.status
    if container.ready or status not in (1, ASKED_WRONGLY):
        log.error("the container %s", container.ended)
    elif status == ASKED_WRONGLY:
        return ASKED_WRONGLY  # the container has said why
    return 1
