"""The end of processes that have left their container's group: many containers in one look."""

from __future__ import annotations

import asyncio

from partway.gateway.fleet.process_table import kill_marked


class Strays:
    """Kills what containers have left behind.

    A look at all processes takes milliseconds, and many containers may end at once: those that come
    while a look is under way share the next one.
    """

    def __init__(self) -> None:
        self._wanted: set[str] = set()
        self._looking: asyncio.Task[None] | None = None

    async def kill(self, mark: str) -> None:
        """Kill all that was started with a mark of a leash's, wherever it is; Linux tells.

        Args:
            mark: that of a container which has ended.
        """
        self._wanted.add(mark)
        while mark in self._wanted:
            if self._looking is None:
                self._looking = asyncio.create_task(self._look(), name="strays of containers")
            await asyncio.wait((self._looking,))

    async def _look(self) -> None:
        marks = frozenset(self._wanted)
        try:
            await asyncio.to_thread(kill_marked, marks)
        finally:
            self._wanted -= marks
            self._looking = None
