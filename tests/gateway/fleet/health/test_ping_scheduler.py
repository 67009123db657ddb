"""gateway.fleet.health.ping_scheduler: pings at a time, and the log of those that fail."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace

import pytest

from partway.gateway.fleet.endpoint import Place
from partway.gateway.fleet.health import ping_scheduler as pinging
from partway.gateway.fleet.health.ping_scheduler import Pinging
from partway.gateway.fleet.launchers.process import HOST
from partway.gateway.fleet.limits import (
    HEALTH_PINGS_AT_ONCE,
    HEALTH_PINGS_PER_TURN,
    PING_TIMEOUT,
    UNPINGED_LINE_INTERVAL,
)
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address, OutOfDescriptors
from tests.gateway.fleet.fakes import turns
from tests.gateway.fleet.processes import eventually, soon
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
    each = [replace(PLACE, endpoint=f"e{n}") for n in range(HEALTH_PINGS_AT_ONCE + 1)]
    asking = [asyncio.create_task(ask(place, 2)) for place in each]
    await turns(HEALTH_PINGS_AT_ONCE)
    assert asked == [2] * HEALTH_PINGS_AT_ONCE
    answer.set()
    assert set(await soon(asyncio.gather(*asking))) == {"refused"}
    assert len(asked) == HEALTH_PINGS_AT_ONCE + 1


async def test_those_of_an_endpoint_that_hang_keep_no_other_waiting():
    def answer(_, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    clock = FakeClock()
    ask, many = Pinging(clock), 2 * HEALTH_PINGS_AT_ONCE
    # Its connections are accepted, as the system does that, and nobody reads what comes by them.
    with socket.create_server((HOST, 0), backlog=many) as mute:
        hangs = replace(PLACE, container=Address(HOST, mute.getsockname()[1]))
        hanging = [asyncio.create_task(ask(hangs, PING_TIMEOUT)) for _ in range(many)]
        await turns(many)
        async with await asyncio.start_server(answer, HOST, 0) as server:
            address = Address(HOST, server.sockets[0].getsockname()[1])
            other = replace(PLACE, endpoint="other", container=address)
            others = [ask(other, PING_TIMEOUT) for _ in range(100)]
            assert await soon(asyncio.gather(*others)) == [None] * len(others)
        assert not any(each.done() for each in hanging)  # the clock has stood still
        while not all(each.done() for each in hanging):
            await eventually(lambda: clock.armed or all(each.done() for each in hanging))
            clock.advance(PING_TIMEOUT)
            await turns(many)
    assert {each.result() for each in hanging} == {"/ping was not answered within 2 s"}


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
