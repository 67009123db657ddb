"""A worker's link with the parent, which outlives the parent."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from partway.gateway.timing.clock import Clock, Timer
from partway.gateway.timing.deadlines import pause
from partway.gateway.workers.limits import (
    DIAL_TIMEOUT,
    HANDOVER_TIMEOUT,
    MAX_HELD_MESSAGES,
    REDIAL_PAUSE,
)
from partway.gateway.workers.link import LinkBroken, MessageTooLong, WorkerLink
from partway.gateway.workers.messages import (
    TO_WORKER,
    Applied,
    HoldRequests,
    ToParent,
    ToWorker,
    Welcome,
    WorkerChecked,
    WorkerHello,
    WorkerMetrics,
)
from partway.log_lines import LogLine
from partway.protocol.errors import ServiceUnavailable

log = logging.getLogger("partway.workers")


#: Answers to this parent alone: the next one has not asked, and has numbers of its own.
_ANSWERS: Final = (Applied, WorkerChecked, WorkerMetrics)


class ParentUnavailable(ServiceUnavailable):
    """The parent does not answer now, since it has ended; the next one answers soon."""

    headers = {"Retry-After": "1"}  # noqa: RUF012 (never changed)


class ParentLink:
    """The link with the parent that runs now, or none between two parents.

    Args:
        first: the link with the worker's first parent.
        path: of the Unix socket at which each later parent answers.
        row: this worker's row of the shared counts.
    """

    def __init__(self, first: WorkerLink[ToWorker], path: str, row: int, clock: Clock) -> None:
        self._link = first
        self._path = path
        self._row = row
        self._clock = clock
        self._is_up = True
        #: Until when requests wait for the next parent; None if they do not.
        self._hold: Timer | None = None
        self._held: deque[ToParent] = deque(maxlen=MAX_HELD_MESSAGES)

    def check_up(self) -> None:
        """Return if a parent answers.

        Raises:
            ParentUnavailable: there is none now.
        """
        if not self._is_up:
            raise ParentUnavailable(
                "the part of the gateway that answers this is being restarted; try again in a "
                "second"
            )

    def send(self, message: ToParent) -> None:
        """Send a message; it is dropped if there is no parent, unless the next one is awaited.

        Raises:
            MessageTooLong: the message is too long.
        """
        if self._hold is not None and not isinstance(message, _ANSWERS):
            self._held.append(message)
            return
        try:
            self._link.send(message)
        except MessageTooLong:
            raise
        except LinkBroken as error:
            log.warning(LogLine("the gateway process takes no messages", reason=str(error)))

    async def messages(self) -> AsyncIterator[ToWorker]:
        """Yield the messages of this parent until it ends.

        Raises:
            LinkBroken: something else than messages has come.
        """
        try:
            async for message in self._link.messages():
                match message:
                    case Welcome():
                        self._end_hold()
                        self._is_up = True
                        yield message
                        self._send_held()
                    case HoldRequests():
                        self._end_hold()
                        self._hold = self._clock.call_later(HANDOVER_TIMEOUT, self._give_up)
                    case _:
                        yield message
        finally:
            self._is_up = self._hold is not None
            self._link.abort()

    def _end_hold(self) -> None:
        if self._hold is not None:
            self._hold.cancel()
            self._hold = None

    def _give_up(self) -> None:
        """Refuse requests again: no parent has come."""
        self._hold = None
        self._is_up = False
        self._held.clear()

    def _send_held(self) -> None:
        while self._held:
            self.send(self._held.popleft())

    async def redial(self) -> None:
        """Return once the parent's socket has taken a hello; a parent answers it with a welcome."""
        while True:
            await pause(self._clock, REDIAL_PAUSE)
            with suppress(OSError):  # a TimeoutError is one
                async with asyncio.timeout(DIAL_TIMEOUT):
                    reader, writer = await asyncio.open_unix_connection(self._path)
                self._link = WorkerLink(reader, writer, TO_WORKER)
                self._link.send(WorkerHello(self._row))
                return

    def close(self) -> None:
        self._end_hold()
        self._link.abort()
