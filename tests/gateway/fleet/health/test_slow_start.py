"""partway.gateway.fleet.health.slow_start, by a clock that the test turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from partway.gateway.fleet.health.slow_start import NO_ANSWER_YET, SlowStart
from tests.gateway.fleet.fakes import turns
from tests.gateway.streams.fakes import FakeClock

ELSEWHERE = "nothing listens on 1; this process listens on 2"


class Watched:
    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.elsewhere = ""
        self.warnings: list[tuple[float, str]] = []
        self.start = SlowStart(clock, lambda *warning: self.warnings.append(warning))

    async def listening_trouble(self) -> str:
        return self.elsewhere

    async def pass_by(self, seconds: float) -> None:
        for _ in range(int(seconds * 2)):
            self.clock.advance(0.5)
            await turns(5)


@pytest.fixture
async def watched(
    anyio_backend: object, no_leaks: None, clock: FakeClock
) -> AsyncIterator[Watched]:
    watched = Watched(clock)
    task = asyncio.create_task(watched.start.watch(watched.listening_trouble))
    await turns(5)
    yield watched
    task.cancel()
    await asyncio.wait((task,))


async def test_the_first_ping_may_have_no_answer_for_long(watched):
    await watched.pass_by(9.5)
    assert (watched.start.reason, watched.warnings) == ("", [])
    await watched.pass_by(61)
    assert watched.warnings == [(10, NO_ANSWER_YET), (70, NO_ANSWER_YET)]


async def test_what_a_look_has_found_goes_before_what_a_ping_says(watched):
    watched.start.pinged("Connection refused")
    watched.elsewhere = ELSEWHERE
    await watched.pass_by(2.5)
    assert watched.start.reason == "Connection refused"
    await watched.pass_by(1)
    watched.start.pinged("Connection refused")
    assert watched.start.reason == ELSEWHERE


async def test_another_answer_takes_away_what_a_look_has_found(watched):
    watched.start.pinged("Connection refused")
    watched.elsewhere = ELSEWHERE
    await watched.pass_by(3)
    watched.start.pinged("/ping was answered with status 502")
    assert watched.start.reason == "/ping was answered with status 502"
    watched.elsewhere = ""
    watched.start.pinged(None)
    assert watched.start.reason == ""
