"""Work that runs to its end even if its caller is cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from partway.gateway.apis.control.limits import CHANGE_END_TIMEOUT, MAX_CHANGES
from partway.gateway.http.audit import ChangeGoesOn
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit
from partway.log_lines import LogLine
from partway.protocol.errors import ApiError, InternalServerError, ServiceUnavailable

_T = TypeVar("_T")

log = logging.getLogger("partway.gateway")


class UnbrokenWork:
    """Changes of the control plane: a half-made change would have no owner."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._under_way: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run work to its end, even if the caller is cancelled, and return its result.

        Raises:
            ChangeGoesOn: the caller is cancelled; the exception has the work's task.
            ServiceUnavailable: MAX_CHANGES are in progress; the work is not begun.
        """
        if len(self._under_way) >= MAX_CHANGES:
            work.close()
            raise ServiceUnavailable(
                f"{MAX_CHANGES} changes are under way; try again when some of them are done"
            )
        task = asyncio.create_task(work, name="a change that is asked for")
        self._under_way.add(task)
        task.add_done_callback(self._over)
        try:
            # Unlike an await of the task, this does not cancel the task.
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.add_done_callback(_log_failure)
            raise ChangeGoesOn(task) from None
        return task.result()

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)

    async def aclose(self) -> None:
        """Wait for running work; cancel it after CHANGE_END_TIMEOUT."""
        left = set(self._under_way)
        if not left:
            return
        try:
            async with time_limit(self._clock, CHANGE_END_TIMEOUT):
                await asyncio.wait(left)
        except TimeoutError:
            for task in left:
                task.cancel()
            await asyncio.wait(left)


def _log_failure(task: asyncio.Task[Any]) -> None:
    """Log a failure that no caller waits for; refusals concern only the caller."""
    error = None if task.cancelled() else task.exception()
    if error is not None and (
        not isinstance(error, ApiError) or isinstance(error, InternalServerError)
    ):
        log.error(LogLine("a change failed after its client had left"), exc_info=error)
