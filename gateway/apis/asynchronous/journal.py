"""The journal of asynchronous requests, which writes many changes in one transaction."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from partway.gateway.apis.asynchronous.limits import (
    JOURNAL_BATCH,
    JOURNAL_END_TIMEOUT,
    JOURNAL_RETRY_INTERVAL,
    JOURNAL_WRITE_TIMEOUT,
)
from partway.gateway.storage.store.store import Body, Record, Removal, Store, StoreError
from partway.gateway.timing.clock import Clock, Timer
from partway.gateway.timing.deadlines import time_limit
from partway.log_lines import LogLine

_T = TypeVar("_T")

log = logging.getLogger("partway.async")

#: Kinds of records: a request that has not ended, and a notice that is not delivered.
REQUEST: Final = "async-request"
NOTICE: Final = "async-notice"


@dataclass(slots=True, eq=False)
class _Entry:
    """Changes that are written together.

    Attributes:
        then: called once they are written.
        outcome: the result for the caller that waits; None for changes that are retried until they
            are written.
        unwanted: whether the caller that waited has left.
    """

    changes: tuple[Record | Removal, ...]
    then: Callable[[], object]
    outcome: asyncio.Future[None] | None
    unwanted: bool = False

    @property
    def is_made(self) -> bool:
        """Whether the waiting caller has been told that the changes are written."""
        outcome = self.outcome
        return outcome is not None and outcome.done() and outcome.exception() is None


class Journal:
    """Writes changes in order, with as many waiting changes as possible in one transaction.

    A hundred requests that come at once cost as much as one. The store takes few concurrent
    operations, and the journal uses one write and one read at a time.

    Changes that must be written and failed wait separately for a retry, and are retried in
    transactions of their own. They neither delay later changes nor make them fail.

    Args:
        store: the store that is written; its owner closes it after :meth:`aclose`.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._asked: deque[_Entry] = deque()
        #: The changes that must be written and wait for a retry, in order.
        self._again: deque[_Entry] = deque()
        self._under_way: list[_Entry] = []
        self._reading = asyncio.Lock()
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._retry: Timer | None = None
        self._writing: asyncio.Task[None] | None = None

    async def records(self, kind: str) -> tuple[Record, ...]:
        """Return all records of a kind; raise StoreError if the records cannot be read."""
        return await self._store.records(kind)

    async def attachment(self, kind: str, name: str) -> bytes:
        """Return the attachment of a record; only one is read at a time.

        Raises:
            StoreError: the attachment cannot be read.
        """
        async with self._reading:
            return await self._store.attachment(kind, name)

    def start(self) -> None:
        self._writing = asyncio.create_task(self._write_all(), name="journal of requests")

    async def write(self, *records: Record, then: Callable[[], object]) -> None:
        """Write new records; they are on disk when this returns.

        If the caller is cancelled meanwhile, the records are not written, or are removed again.

        Args:
            records: the records; a failure writes none of them.
            then: called as soon as they are written, unless the caller has been cancelled.

        Raises:
            StoreError: the records are not written, or not in time; late ones are removed again.
        """
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        outcome.add_done_callback(_heard)
        entry = _Entry(records, then, outcome)
        self._ask(entry)
        try:
            async with time_limit(self._clock, JOURNAL_WRITE_TIMEOUT):
                await asyncio.shield(outcome)
        except TimeoutError:
            if outcome.done():
                return outcome.result()
            self._take_back(entry)
            raise StoreError(
                f"the store has not accepted a change for {JOURNAL_WRITE_TIMEOUT:g} s; look at "
                "its disk, or at the server of its file system"
            ) from None
        except asyncio.CancelledError:
            self._take_back(entry)
            raise

    def write_surely(self, *changes: Record | Removal, then: Callable[[], object]) -> None:
        """Write changes as soon as the store accepts them.

        Args:
            changes: the changes, which are written together.
            then: called once they are written.
        """
        entry = _Entry(changes, then, None)
        if self._again:  # the order of changes must hold
            self._again.append(entry)
        else:
            self._ask(entry)

    async def aclose(self) -> None:
        """Write the remaining changes within JOURNAL_END_TIMEOUT, and stop."""
        if self._writing is None:
            return
        self._retried()
        try:
            async with time_limit(self._clock, JOURNAL_END_TIMEOUT):
                await self._idle.wait()
        except TimeoutError:
            log.warning(
                LogLine("the ends of some requests could not be stored; these requests run again")
            )
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

    def _take_back(self, entry: _Entry) -> None:
        """Do not write records that nobody waits for, or remove them once they are written."""
        entry.unwanted = True
        if entry in self._asked:
            self._asked.remove(entry)
            self._news.set()
        elif entry.is_made:
            self._remove(entry)

    def _remove(self, entry: _Entry) -> None:
        removals = (Removal(change.kind, change.name) for change in entry.changes)
        self.write_surely(*removals, then=lambda: None)

    async def _write_all(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while line := self._next_line():
                many = min(JOURNAL_BATCH, len(line))
                self._under_way = [line.popleft() for _ in range(many)]
                await self._write(self._under_way)
                self._under_way = []
            if not self._asked and not self._again:
                self._idle.set()

    def _next_line(self) -> deque[_Entry]:
        return self._again if self._again and self._retry is None else self._asked

    async def _write(self, batch: list[_Entry]) -> None:
        try:
            await self._store.write(*(change for entry in batch for change in entry.changes))
        except StoreError as error:
            self._not_written(batch, error)
            return
        for entry in batch:
            if entry.unwanted:
                self._remove(entry)
                continue
            entry.then()
            if entry.outcome is not None and not entry.outcome.done():
                entry.outcome.set_result(None)

    def _not_written(self, batch: list[_Entry], error: StoreError) -> None:
        """Report the failure to waiting callers; queue the other changes for a retry."""
        to_retry = []
        for entry in batch:
            if entry.outcome is None:
                to_retry.append(entry)
            elif not entry.outcome.done():
                entry.outcome.set_exception(error)
        if to_retry:
            behind = [entry for entry in self._asked if entry.outcome is None]
            self._again.extendleft(reversed(to_retry))
            self._again.extend(behind)
            self._asked = deque(entry for entry in self._asked if entry.outcome is not None)
            log.warning(
                LogLine("the end of a request cannot be stored; trying again", reason=str(error))
            )
            self._retry = self._clock.call_later(JOURNAL_RETRY_INTERVAL, self._retried)

    def _retried(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._news.set()


def value_of(make: Callable[[Body], _T], record: Record) -> _T:
    """Return the object that a record was made from.

    Raises:
        StoreError: the record has other members than this version of Partway writes.
    """
    try:
        return make(record.body)
    except TypeError as error:
        raise StoreError(
            f"the record {record.kind} {record.name!r} of the store was written by another "
            f"version of Partway ({error}); start that version, or name another folder with "
            "--data-dir DIR"
        ) from None


def _heard(outcome: asyncio.Future[None]) -> None:
    """Mark the exception as retrieved, since the caller may have left."""
    if not outcome.cancelled():
        outcome.exception()
