"""The way down by its rules, over streams that only write down what they are told.

With a server around it, on the wire: test_server, test_under_load and hosting/test_asgi.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from partway.container.activity import STOPPING, Activity
from partway.container.shutdown import Shutdown, ShutdownTimes
from partway.protocol.limits import SHUTDOWN_BURST
from tests.container.test_activity import FakeStream

pytestmark = pytest.mark.usefixtures("no_leaks")

TOLD = [(1001, STOPPING)]


@asynccontextmanager
async def busy(
    count: int, times: ShutdownTimes
) -> AsyncIterator[tuple[Shutdown, Activity, list[FakeStream]]]:
    """A shutdown of so many streams, all of which run until the block's end."""
    activity = Activity(count, lambda: None)
    streams = [FakeStream() for _ in range(count)]
    async with asyncio.timeout(30), AsyncExitStack() as stack:
        stack.enter_context(activity.counted())
        for stream in streams:
            stack.enter_context(activity.open(stream))
        yield Shutdown(activity, times), activity, streams


async def test_ten_thousand_streams_are_all_told() -> None:
    async with busy(10_000, ShutdownTimes(0, 0.2, 0)) as (shutdown, activity, streams):
        await shutdown.drain()
        assert activity.draining
        assert all(stream.closes == TOLD for stream in streams)


async def test_hastened_a_turn_of_the_loop_tells_no_more_than_a_burst() -> None:
    """``/ping`` has its turn in between."""
    async with busy(1000, ShutdownTimes(60, 60, 0)) as (shutdown, _, streams):
        draining = asyncio.create_task(shutdown.drain())
        shutdown.stop()
        shutdown.stop()
        assert shutdown.hastened
        told = [0]
        while told[-1] < len(streams):
            await asyncio.sleep(0)
            told.append(sum(bool(stream.closes) for stream in streams))
        bursts = {later - earlier for earlier, later in itertools.pairwise(told)}
        assert max(bursts) == SHUTDOWN_BURST
        await draining


async def test_a_stream_that_has_ended_by_itself_is_told_nothing() -> None:
    async with busy(2, ShutdownTimes(0, 60, 0)) as (shutdown, activity, streams):
        with activity.open(leaves := FakeStream()):
            draining = asyncio.create_task(shutdown.drain())
            for _ in range(5):
                await asyncio.sleep(0)
        told_before = list(leaves.closes)
        shutdown.stop()
        shutdown.stop()
        await draining
        assert all(stream.closes == TOLD for stream in streams)
        assert leaves.closes == told_before


@pytest.mark.parametrize("times", [ShutdownTimes(60, 0, 0), ShutdownTimes(0, 60, 0)])
async def test_once_nothing_runs_nobody_waits(times: ShutdownTimes) -> None:
    activity = Activity(1, lambda: None)
    shutdown = Shutdown(activity, times)
    over = asyncio.Event()

    async def run() -> None:
        with activity.counted(), activity.open(FakeStream()):
            await over.wait()

    running = asyncio.create_task(run())
    await asyncio.sleep(0)
    draining = asyncio.create_task(shutdown.drain())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not draining.done()
    over.set()
    async with asyncio.timeout(30):
        await draining
    await running
