"""partway.gateway.fleet.launchers.engine_removals: asked again, and told when it is over.

What a launcher does by it is in ``test_engine.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from partway.gateway.fleet.launchers.engine_client import EngineClient
from partway.gateway.fleet.launchers.engine_removals import EngineRemovals
from partway.gateway.fleet.limits import KILL_TIMEOUT
from partway.gateway.timing.clock import LoopClock
from tests.gateway.fleet.launchers.fake_engine import refusal
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.streams.fakes import FakeClock


@pytest.fixture
async def client(fake) -> AsyncIterator[EngineClient]:
    client = EngineClient(fake.where, LoopClock())
    await soon(client.create("one", {}))
    yield client
    await client.aclose()


async def test_it_is_over_when_it_is_removed(client, fake):
    over = []
    removals = EngineRemovals(LoopClock())
    fake.answers["DELETE"] = refusal(409, "removal is in progress")
    removal = removals.begin(client, "one", lambda: over.append(dict(fake.containers)))
    await eventually(lambda: sum(asked.startswith("DELETE") for asked in fake.asked) > 1)
    assert over == []
    fake.answers.clear()
    await soon(removal)
    assert over == [{}]
    await soon(removals.aclose())


async def test_nobody_waits_for_longer_than_a_kill_takes(client, fake):
    clock = FakeClock()
    removals = EngineRemovals(clock)
    await soon(removals.wait(()))
    go = asyncio.Event()
    fake.answers["DELETE"] = go.wait
    waiting = asyncio.create_task(removals.wait((removals.begin(client, "one", list),)))
    await eventually(lambda: clock.armed)
    assert not waiting.done()
    clock.advance(KILL_TIMEOUT)
    await soon(waiting)
    assert "one" in fake.containers
    go.set()
    await soon(removals.aclose())
    assert fake.containers == {}
