"""One answer at a time on a stream: the next message ends the one before."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class InterruptibleAnswer:
    """The answer that is being sent on a stream.

    Args:
        group: runs the answers; a failed one ends it.
    """

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._task: asyncio.Task[None] | None = None

    async def end(self) -> bool:
        """End the current answer, and wait for its end; return whether there was one."""
        task = self._task
        if task is None or task.done():
            return False
        task.cancel()
        await asyncio.wait((task,))  # awaiting the task would hide a cancellation of our own
        return True

    def begin(self, answer: Coroutine[Any, Any, None]) -> None:
        self._task = self._group.create_task(answer)
