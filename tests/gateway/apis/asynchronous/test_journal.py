"""partway.gateway.apis.asynchronous.journal: many changes at once, and those that must be made."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.apis.asynchronous.journal import REQUEST, Journal, value_of
from partway.gateway.apis.asynchronous.limits import (
    JOURNAL_BATCH,
    JOURNAL_END_TIMEOUT,
    JOURNAL_RETRY_INTERVAL,
    JOURNAL_WRITE_TIMEOUT,
)
from partway.gateway.apis.asynchronous.requests import AsyncRequest
from partway.gateway.storage.store.limits import STORE_WAITING
from partway.gateway.storage.store.memory import MemoryStore
from partway.gateway.storage.store.sqlite import SqliteStore
from partway.gateway.storage.store.store import Record, Removal, StoreError
from partway.gateway.timing.clock import LoopClock
from tests.gateway.apis.asynchronous.a_request import a_request
from tests.gateway.fleet.waiting import eventually
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


class SlowStore(MemoryStore):
    """A store whose writing takes until a test lets it go on, and may fail."""

    def __init__(self):
        super().__init__()
        self.batches = []
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.fault = None

    async def write(self, *changes):
        await self.may_write.wait()
        if self.fault is not None:
            raise self.fault
        self.batches.append(len(changes))
        await super().write(*changes)


def nothing():
    pass


def record(number):
    return Record(REQUEST, f"{number:03}")


@pytest.fixture
async def store():
    return SlowStore()


@pytest.fixture
async def clock():
    return FakeClock()


@pytest.fixture
async def journal(store, clock):
    found = Journal(store, clock)
    found.start()
    yield found
    store.fault = None
    store.may_write.set()
    await found.aclose()


async def test_what_comes_while_the_disk_writes_is_written_together(journal, store):
    store.may_write.clear()
    then = []
    writing = [
        asyncio.create_task(journal.write(record(n), then=lambda n=n: then.append(n)))
        for n in range(100)
    ]
    await asyncio.sleep(0)
    store.may_write.set()
    await asyncio.gather(*writing)
    assert sum(store.batches) == 100
    assert len(store.batches) <= 2
    assert then == list(range(100))
    assert len(await journal.records(REQUEST)) == 100


async def test_more_at_once_than_a_store_lets_wait(tmp_path, anyio_backend):
    store = await SqliteStore.opened(tmp_path / "store.db", LoopClock())
    journal = Journal(store, LoopClock())
    journal.start()
    many = range(4 * STORE_WAITING)
    await asyncio.gather(*(journal.write(record(n), then=nothing) for n in many))
    assert len(await journal.records(REQUEST)) == len(many)
    await journal.aclose()
    await store.aclose()


async def test_who_waits_hears_that_it_is_not_written(journal, store):
    store.fault = StoreError("the disk is full")
    with pytest.raises(StoreError, match="full"):
        await journal.write(record(1), then=nothing)
    store.fault = None
    await journal.write(record(2), then=nothing)
    assert [each.name for each in await journal.records(REQUEST)] == ["002"]


async def test_what_must_be_made_is_tried_until_it_is(journal, store, clock):
    await journal.write(record(1), then=nothing)
    store.fault = StoreError("the disk is full")
    made = []
    journal.write_surely(Removal(REQUEST, "001"), then=lambda: made.append(1))
    await eventually(lambda: bool(clock.armed))
    clock.advance(JOURNAL_RETRY_INTERVAL)
    await eventually(lambda: bool(clock.armed))
    assert not made
    store.fault = None
    clock.advance(JOURNAL_RETRY_INTERVAL)
    await eventually(lambda: bool(made))
    assert await journal.records(REQUEST) == ()


async def test_what_must_be_made_and_is_not_holds_up_nobody(journal, store, clock):
    made = []
    store.fault = StoreError("the disk is full")
    for number in range(2 * JOURNAL_BATCH):
        journal.write_surely(record(number), then=lambda n=number: made.append(n))
    await eventually(lambda: bool(clock.armed))
    with pytest.raises(StoreError, match="full"):
        await journal.write(record(900), then=nothing)
    store.fault = None
    await journal.write(record(901), then=nothing)
    journal.write_surely(record(902), then=lambda: made.append(902))
    assert [each.name for each in await journal.records(REQUEST)] == ["901"]
    clock.advance(JOURNAL_RETRY_INTERVAL)
    await eventually(lambda: len(made) == 2 * JOURNAL_BATCH + 1)
    assert made == [*range(2 * JOURNAL_BATCH), 902]


async def test_a_disk_that_hangs_takes_nothing_and_the_next_is_not_behind_it(journal, store, clock):
    store.may_write.clear()
    then = []
    writing = []
    for number in range(2):  # the first is at the store, and the second behind it
        work = journal.write(record(number), then=lambda: then.append(1))
        writing.append(asyncio.create_task(work))
        await eventually(lambda: len(clock.armed) == len(writing))
    clock.advance(JOURNAL_WRITE_TIMEOUT)
    for each in writing:
        with pytest.raises(StoreError, match="has not accepted a change for 30 s"):
            await each
    store.may_write.set()
    await journal.write(record(2), then=nothing)
    await journal.aclose()
    assert [each.name for each in await journal.records(REQUEST)] == ["002"]
    assert not then


@pytest.mark.parametrize("is_made", [False, True])
async def test_nothing_is_left_of_what_its_caller_was_cancelled_for(journal, store, clock, is_made):
    store.may_write.clear()
    made = []

    def then():
        made.append(1)
        writing.cancel()

    writing = asyncio.create_task(journal.write(record(1), then=then))
    await eventually(lambda: bool(clock.armed))
    if not is_made:
        writing.cancel()
        await asyncio.wait((writing,))
    store.may_write.set()
    await asyncio.wait((writing,))
    assert writing.cancelled()
    await journal.aclose()
    assert await journal.records(REQUEST) == ()
    assert store.batches == [1, 1]
    assert made == [1] * is_made


async def test_its_end_writes_what_is_left(store, clock, anyio_backend):
    journal = Journal(store, clock)
    journal.start()
    store.fault = StoreError("the disk is full")
    journal.write_surely(record(1), then=nothing)
    await eventually(lambda: bool(clock.armed))
    store.fault = None
    await journal.aclose()
    assert len(await journal.records(REQUEST)) == 1


async def test_its_end_does_not_wait_for_a_disk_that_is_away(store, clock, anyio_backend):
    journal = Journal(store, clock)
    journal.start()
    store.may_write.clear()
    waiting = asyncio.create_task(journal.write(record(1), then=nothing))
    await asyncio.sleep(0)
    behind = asyncio.create_task(journal.write(record(2), then=nothing))
    ending = asyncio.create_task(journal.aclose())
    await eventually(lambda: len(clock.armed) == 3)
    clock.advance(JOURNAL_END_TIMEOUT)
    await ending
    for task in (waiting, behind):
        with pytest.raises(StoreError, match="stops"):
            await task


def test_a_record_of_another_version_is_named():
    request = a_request()
    record = Record(REQUEST, request.id, request.body())
    assert value_of(AsyncRequest.of, record) == request
    for body in (request.body() | {"colour": "red"}, {"id": request.id}):
        with pytest.raises(StoreError, match=f"async-request '{request.id}' .* start that version"):
            value_of(AsyncRequest.of, Record(REQUEST, request.id, body))
