"""Names that are worked on: one at a time each, again where they change, some at a time."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.apis.kubernetes.work_queue import WorkQueue
from tests.gateway.fleet.fakes import turns
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


class Work:
    def __init__(self, places=2):
        self.begun = []
        self.go_on = asyncio.Event()
        self.fails = False
        self.clock = FakeClock()
        self.queue = WorkQueue(self, places, self.clock)

    async def __call__(self, name):
        self.begun.append(name)
        if self.fails:
            raise RuntimeError(name)
        await self.go_on.wait()


async def test_a_name_is_worked_on_once_at_a_time_and_once_more():
    work = Work()
    for _ in range(3):
        work.queue.add("a")
        await turns(5)
    assert work.begun == ["a"]
    work.queue.add("a")
    work.queue.add("a")
    work.go_on.set()
    await turns()
    assert work.begun == ["a", "a"]
    work.queue.add("a")
    await turns()
    assert work.begun == ["a", "a", "a"]
    await work.queue.aclose()


async def test_names_take_turns_and_one_that_fails_stops_no_other():
    work = Work(places=1)
    work.fails = True
    for name in "ab":
        work.queue.add(name)
    await turns()
    assert work.begun == ["a", "b"]
    work.fails = False
    for name in "cd":
        work.queue.add(name)
    await turns()
    assert work.begun[2:] == ["c"]
    await work.queue.aclose()
    work.queue.add("e")
    await turns()
    assert work.begun[2:] == ["c"]


async def test_later_is_once_unless_it_is_sooner():
    work = Work()
    work.go_on.set()
    for _ in range(2):
        work.queue.add_later("a", 5)
    work.clock.advance(4)
    await turns()
    assert work.begun == []
    work.clock.advance(1)
    await turns()
    assert work.begun == ["a"]
    work.queue.add_later("b", 5)
    work.queue.add("b")
    work.clock.advance(5)
    await turns()
    assert work.begun == ["a", "b"]
    work.queue.add_later("c", 5)
    await work.queue.aclose()
    assert work.clock.armed == []
