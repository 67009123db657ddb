"""partway.gateway.timing.loop_turns: a few go on in each turn of the loop, in their order."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.timing.loop_turns import LoopTurns

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


class Turns:
    """The turns of the running loop, counted."""

    def __init__(self):
        self.count = 0
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.call_soon(self._turn)

    def _turn(self):
        self.count += 1
        self._next = self._loop.call_soon(self._turn)

    def stop(self):
        self._next.cancel()


async def passed(turns, name, noted, counted):
    await turns.next()
    noted.append((name, counted.count))


async def without_the_first_two(turns, names, noted, counted):
    """All wait, and two leave before the first turn; returns when the others have had theirs."""
    tasks = [asyncio.create_task(passed(turns, name, noted, counted)) for name in names]
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[1].cancel()
    await asyncio.wait(tasks)
    assert [task.cancelled() for task in tasks] == [True, True, *[False] * (len(names) - 2)]


async def test_so_many_go_on_in_a_turn_and_the_others_in_the_next_ones():
    turns, noted, counted = LoopTurns(2), [], Turns()
    await asyncio.gather(*(passed(turns, name, noted, counted) for name in "abcde"))
    counted.stop()
    assert [name for name, _ in noted] == list("abcde")
    first = noted[0][1]
    assert [count - first for _, count in noted] == [0, 0, 1, 1, 2]


async def test_whoever_comes_later_waits_behind_the_others():
    turns, noted, counted = LoopTurns(1), [], Turns()

    async def again(name):
        await passed(turns, name, noted, counted)
        await passed(turns, name + "2", noted, counted)

    await asyncio.gather(again("a"), again("b"))
    counted.stop()
    assert [name for name, _ in noted] == ["a", "b", "a2", "b2"]


async def test_those_that_have_left_keep_nobody():
    turns, noted, counted = LoopTurns(1), [], Turns()
    await without_the_first_two(turns, "abc", noted, counted)
    await passed(turns, "d", noted, counted)  # nobody waits any more, so it begins anew
    counted.stop()
    assert [name for name, _ in noted] == ["c", "d"]


async def test_those_that_have_left_take_nobodys_place():
    turns, noted, counted = LoopTurns(2), [], Turns()
    await without_the_first_two(turns, "abcd", noted, counted)
    counted.stop()
    (_, third), (_, fourth) = noted
    assert third == fourth
