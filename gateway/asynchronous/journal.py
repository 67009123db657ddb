"""What is written down of asynchronous requests: many changes in one transaction."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from partway.gateway.asynchronous.limits import (
    JOURNAL_BATCH,
    JOURNAL_END_TIMEOUT,
    JOURNAL_RETRY_INTERVAL,
)
from partway.gateway.clock import Clock, Timer
from partway.gateway.store.store import Record, Removal, Store, StoreError
from partway.gateway.waiting import time_limit
from partway.log_lines import LogLine

log = logging.getLogger("partway.async")

#: Kinds of records: a request that has not come to its end, and a notice that is to be delivered.
REQUEST: Final = "async-request"
NOTICE: Final = "async-notice"


@dataclass(slots=True)
class _Entry:
    """Changes that are made together.

    Attributes:
        changes: the changes.
        then: called once they are made.
        outcome: heard by whoever waits for it; None where they are tried until they are made.
    """

    changes: tuple[Record | Removal, ...]
    then: Callable[[], object]
    outcome: asyncio.Future[None] | None


class Journal:
    """Writes changes in their order, as many as wait in one transaction.

    So a hundred requests that come at once cost what one does, and the store, which lets few wait,
    has one of this at a time.

    Args:
        store: where they are written; its owner closes it behind :meth:`aclose`.
        clock: measures the times.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._asked: deque[_Entry] = deque()
        self._under_way: list[_Entry] = []
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._retry: Timer | None = None
        self._writing: asyncio.Task[None] | None = None

    async def records(self, kind: str) -> tuple[Record, ...]:
        """What is written down.

        Raises:
            StoreError: it cannot be read.
        """
        return await self._store.records(kind)

    def start(self) -> None:
        """Write from now on."""
        self._writing = asyncio.create_task(self._write_all(), name="journal of requests")

    async def write(self, *changes: Record | Removal, then: Callable[[], object]) -> None:
        """Make changes; they are on disk when this returns.

        Args:
            changes: all of them are made, or none.
            then: called as soon as they are made, also if the caller is cancelled meanwhile.

        Raises:
            StoreError: none of them is made.
        """
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        outcome.add_done_callback(_heard)
        self._ask(_Entry(changes, then, outcome))
        await asyncio.shield(outcome)

    def write_surely(self, *changes: Record | Removal, then: Callable[[], object]) -> None:
        """Make changes as soon as the store takes them.

        Args:
            changes: all of them are made together.
            then: called once they are made.
        """
        self._ask(_Entry(changes, then, None))

    async def aclose(self) -> None:
        """Write what is left, in time, and nothing more."""
        if self._writing is None:
            return
        self._retried()
        try:
            async with time_limit(self._clock, JOURNAL_END_TIMEOUT):
                await self._idle.wait()
        except TimeoutError:
            log.warning(LogLine("ends of requests are not written: they run again"))
        self._writing.cancel()
        await asyncio.wait((self._writing,))
        self._retried()
        for entry in (*self._under_way, *self._asked):
            if entry.outcome is not None and not entry.outcome.done():
                entry.outcome.set_exception(StoreError("the gateway stops"))

    def _ask(self, entry: _Entry) -> None:
        self._asked.append(entry)
        self._idle.clear()
        self._news.set()

    async def _write_all(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._asked and self._retry is None:
                many = min(JOURNAL_BATCH, len(self._asked))
                self._under_way = [self._asked.popleft() for _ in range(many)]
                await self._write(self._under_way)
                self._under_way = []
            if not self._asked:
                self._idle.set()

    async def _write(self, batch: list[_Entry]) -> None:
        try:
            await self._store.write(*(change for entry in batch for change in entry.changes))
        except StoreError as error:
            self._not_written(batch, error)
            return
        for entry in batch:
            entry.then()
            if entry.outcome is not None and not entry.outcome.done():
                entry.outcome.set_result(None)

    def _not_written(self, batch: list[_Entry], error: StoreError) -> None:
        """Tell those who wait; what nobody waits for is tried again, before all else."""
        to_retry = []
        for entry in batch:
            if entry.outcome is None:
                to_retry.append(entry)
            elif not entry.outcome.done():
                entry.outcome.set_exception(error)
        self._asked.extendleft(reversed(to_retry))
        if to_retry:
            log.warning(LogLine("the end of a request is not written", reason=str(error)))
            self._retry = self._clock.call_later(JOURNAL_RETRY_INTERVAL, self._retried)

    def _retried(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._news.set()


def _heard(outcome: asyncio.Future[None]) -> None:
    """Take what has gone wrong for heard, where whoever asked has left."""
    if not outcome.cancelled():
        outcome.exception()
