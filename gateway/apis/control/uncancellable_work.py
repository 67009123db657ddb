"""Work that is done to its end, also where whoever has asked for it leaves."""

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
    """Work of the control plane: half of a change would be nobody's.

    Args:
        clock: measures the time that what is under way has at the end.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._under_way: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Return what the work returns; it goes on where its caller is cancelled.

        Raises:
            ChangeGoesOn: the caller is cancelled; with the work's task.
            ServiceUnavailable: MAX_CHANGES are under way; the work is not begun.
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
            await asyncio.wait((task,))  # which, unlike an await of the task, does not cancel it
        except asyncio.CancelledError:
            task.add_done_callback(_log_failure)
            raise ChangeGoesOn(task) from None
        return task.result()

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)

    async def aclose(self) -> None:
        """Wait for what is under way; what is not over in time is cancelled."""
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
    """Say what has failed where nobody waits for it any more; a refusal is its caller's alone."""
    error = None if task.cancelled() else task.exception()
    if error is not None and (
        not isinstance(error, ApiError) or isinstance(error, InternalServerError)
    ):
        log.error(LogLine("a change failed whose client had left"), exc_info=error)
