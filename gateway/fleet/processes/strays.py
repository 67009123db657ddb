"""The end of processes that have left their container's group: many containers in one look."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from partway.gateway.fleet.processes.process_table import kill_marked


class Strays:
    """Kills what containers have left behind.

    A look at all processes takes milliseconds, and many containers may end at once: those that come
    while a look is under way share the next one.
    """

    def __init__(self) -> None:
        #: By mark, what is set once it has been looked for.
        self._wanted: dict[str, asyncio.Event] = {}
        self._looking: asyncio.Task[None] | None = None

    async def kill(self, mark: str) -> None:
        """Kill all that was started with a mark of a leash's, wherever it is; Linux tells.

        Args:
            mark: that of a container which has ended.
        """
        looked_for = self._wanted.setdefault(mark, asyncio.Event())
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="strays of containers")
        await looked_for.wait()

    async def _look(self) -> None:
        """Look until nothing is wanted any more, whether or not somebody still waits for it."""
        try:
            while marks := tuple(self._wanted):
                await asyncio.to_thread(kill_marked, marks)
                self._looked_for(marks)
        finally:  # what was not looked for is found at the leash's end
            self._looked_for(tuple(self._wanted))
            self._looking = None

    def _looked_for(self, marks: Iterable[str]) -> None:
        for mark in marks:
            self._wanted.pop(mark).set()
