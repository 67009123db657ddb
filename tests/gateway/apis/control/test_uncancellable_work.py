"""Work goes on where its caller leaves, and has an end when the gateway stops."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.apis.control.errors import NotWrittenDown
from partway.gateway.apis.control.limits import CHANGE_END_TIMEOUT, MAX_CHANGES
from partway.gateway.apis.control.uncancellable_work import UnbrokenWork
from partway.gateway.http.audit import ChangeGoesOn
from partway.protocol.errors import AccessDenied, ServiceUnavailable
from tests.gateway.streams.fakes import FakeClock
from tests.wire.peers import eventually


async def test_it_returns_what_the_work_returns_and_raises_what_it_raises():
    async def good():
        return 1

    async def bad():
        raise KeyError("a")

    work = UnbrokenWork(FakeClock())
    assert await work.run(good()) == 1
    with pytest.raises(KeyError):
        await work.run(bad())
    await work.aclose()


async def test_work_whose_caller_leaves_is_done_all_the_same_and_waited_for():
    began, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def change():
        began.set()
        await go_on.wait()
        done.set()

    work = UnbrokenWork(FakeClock())
    caller = asyncio.create_task(work.run(change()))
    await began.wait()
    caller.cancel()
    await asyncio.wait((caller,))
    assert caller.cancelled()
    with pytest.raises(ChangeGoesOn) as left:
        await caller
    closing = asyncio.create_task(work.aclose())
    go_on.set()
    await closing
    assert done.is_set()
    assert left.value.change.done()


async def test_there_are_no_more_changes_than_that_be_their_callers_there_or_not():
    go_on, done = asyncio.Event(), []

    async def change():
        await go_on.wait()
        done.append(1)

    work = UnbrokenWork(FakeClock())
    callers = [asyncio.create_task(work.run(change())) for _ in range(MAX_CHANGES)]
    await asyncio.sleep(0)
    for caller in callers[1:]:
        caller.cancel()
    with pytest.raises(ServiceUnavailable, match="changes are under way; try again"):
        await work.run(change())
    go_on.set()
    await callers[0]
    await work.aclose()
    await work.run(change())
    assert len(done) == MAX_CHANGES + 1


@pytest.mark.parametrize(
    ("error", "logged"), [(KeyError("a"), 1), (NotWrittenDown("full"), 1), (AccessDenied("a"), 0)]
)
async def test_a_fault_of_work_whose_caller_has_left_is_logged(caplog, error, logged):
    began, go_on = asyncio.Event(), asyncio.Event()

    async def change():
        began.set()
        await go_on.wait()
        raise error

    work = UnbrokenWork(FakeClock())
    caller = asyncio.create_task(work.run(change()))
    await began.wait()
    caller.cancel()
    await asyncio.wait((caller,))
    go_on.set()
    await work.aclose()
    assert [record.exc_info[1] for record in caplog.records] == [error] * logged


async def test_what_does_not_end_is_cancelled():
    began, cancelled = asyncio.Event(), asyncio.Event()

    async def change():
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    clock = FakeClock()
    work = UnbrokenWork(clock)
    caller = asyncio.create_task(work.run(change()))
    await began.wait()
    closing = asyncio.create_task(work.aclose())
    await eventually(lambda: bool(clock.armed))
    clock.advance(CHANGE_END_TIMEOUT)
    await closing
    assert cancelled.is_set()
    with pytest.raises(asyncio.CancelledError):
        await caller
