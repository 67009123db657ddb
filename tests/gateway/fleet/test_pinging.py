"""partway.gateway.fleet.pinging: how many are asked at a time, and what is said if none can be."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.dialling import Address, OutOfDescriptors
from partway.gateway.fleet import pinging
from partway.gateway.fleet.endpoints import Place
from partway.gateway.fleet.limits import (
    HEALTH_PINGS_AT_ONCE,
    HEALTH_PINGS_PER_TURN,
    UNPINGED_LINE_INTERVAL,
)
from partway.gateway.fleet.pinging import Pinging
from partway.gateway.streams.policy import StreamPolicy
from tests.gateway.fleet.fakes import turns
from tests.gateway.fleet.processes import soon
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

PLACE = Place("echo", Address("h", 1), StreamPolicy())


async def test_no_more_are_asked_at_a_time_than_that(monkeypatch):
    asked, answer = [], asyncio.Event()

    async def ping(place, clock, seconds):
        asked.append(seconds)
        await answer.wait()
        return "refused"

    monkeypatch.setattr(pinging, "ping_place", ping)
    ask = Pinging(FakeClock())
    asking = [asyncio.create_task(ask(PLACE, 2)) for _ in range(HEALTH_PINGS_AT_ONCE + 1)]
    await turns(HEALTH_PINGS_AT_ONCE)
    assert asked == [2] * HEALTH_PINGS_AT_ONCE
    answer.set()
    assert set(await soon(asyncio.gather(*asking))) == {"refused"}
    assert len(asked) == HEALTH_PINGS_AT_ONCE + 1


async def test_pings_that_are_due_together_leave_the_loop_to_others_in_between(monkeypatch):
    asked = []

    async def ping(*_):
        asked.append(None)

    monkeypatch.setattr(pinging, "ping_place", ping)
    ask, begun = Pinging(FakeClock()), []
    asking = [asyncio.create_task(ask(PLACE, 2)) for _ in range(5 * HEALTH_PINGS_PER_TURN)]
    while len(asked) < len(asking):
        before = len(asked)
        await asyncio.sleep(0)
        begun.append(len(asked) - before)
    await soon(asyncio.gather(*asking))
    assert max(begun) == HEALTH_PINGS_PER_TURN


async def test_one_line_tells_that_nobody_can_be_asked(monkeypatch, caplog):
    async def ping(*_):
        raise OutOfDescriptors("Too many open files")

    monkeypatch.setattr(pinging, "ping_place", ping)
    clock = FakeClock()
    ask = Pinging(clock)
    for _ in range(3):
        with pytest.raises(OutOfDescriptors):
            await ask(PLACE, 2)
    (line,) = caplog.messages
    assert line.startswith("instances are not pinged, and stay as they are: ")
    assert line.endswith('reason="Too many open files"')
    clock.advance(UNPINGED_LINE_INTERVAL)
    with pytest.raises(OutOfDescriptors):
        await ask(PLACE, 2)
    assert len(caplog.messages) == 2
