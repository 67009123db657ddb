"""The registry of streams: admission while it fills and drains. The drain itself: test_gateway."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.streams.registry import Streams
from partway.protocol.errors import ServiceUnavailable


class FakeSession:
    """What the registry asks of a session."""

    def __init__(self) -> None:
        self.drained = False

    def drain(self) -> None:
        self.drained = True


async def hold(streams, entered, leave):
    with streams.opening():
        entered.set()
        await leave.wait()


async def opening(streams):
    """A stream that is being opened, until its event is set."""
    entered, leave = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(hold(streams, entered, leave))
    await entered.wait()
    return task, leave


async def test_those_being_opened_count_as_streams():
    streams = Streams(2)
    streams.started(FakeSession())
    task, leave = await opening(streams)
    assert streams.being_opened == 1
    with pytest.raises(ServiceUnavailable, match="all 2 streams"), streams.opening():
        pass
    leave.set()
    await task
    with streams.opening():
        assert streams.being_opened == 1
    assert streams.being_opened == 0


async def test_nothing_new_while_draining():
    streams = Streams(2)
    await streams.drain(grace=0, spread=0)
    with pytest.raises(ServiceUnavailable, match="draining"), streams.opening():
        pass


async def test_an_idle_registry_drains_at_once():
    await asyncio.wait_for(Streams(1).drain(grace=60, spread=60), 1)


async def test_those_being_opened_are_refused_once_grace_is_over():
    streams = Streams(2)
    task, _ = await opening(streams)
    session = FakeSession()
    streams.started(session)
    await streams.drain(grace=0, spread=0)
    with pytest.raises(ServiceUnavailable, match="draining"):
        await task
    assert session.drained


async def test_a_client_that_leaves_while_its_stream_is_opened_is_no_drain():
    streams = Streams(2)
    task, _ = await opening(streams)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert streams.being_opened == 0


async def test_hastened_it_waits_neither_for_grace_nor_for_spread():
    streams = Streams(10)
    sessions = [FakeSession() for _ in range(5)]
    for session in sessions:
        streams.started(session)
    draining = asyncio.create_task(streams.drain(grace=60, spread=60))
    await asyncio.sleep(0)
    assert streams.draining
    streams.hasten()
    await asyncio.wait_for(draining, 1)
    assert all(session.drained for session in sessions)
