"""Turns of connections with a backlog: each in its order, and only some in one round."""

from __future__ import annotations

import asyncio

import pytest

from partway.protocol.connections import fair_turns as module
from partway.protocol.connections.fair_turns import Rounds
from partway.protocol.limits import ROUND_SECONDS


class Backlog:
    """So many turns, each of which takes some time of the test's clock."""

    def __init__(self, rounds, clock, turns=1, seconds=0.0):
        self.taken = 0
        self._left = turns
        self._take = (rounds, clock, seconds)
        self.turn = rounds.soon(self.take_turn)

    def take_turn(self):
        rounds, clock, seconds = self._take
        self.taken += 1
        self._left -= 1
        clock.now += seconds
        if self._left:
            self.turn = rounds.soon(self.take_turn)


class Now:
    now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Now()
    monkeypatch.setattr(module, "time", clock)
    return clock


async def test_each_takes_one_turn_in_a_round(clock):
    rounds = Rounds()
    long, short = Backlog(rounds, clock, 3), Backlog(rounds, clock)
    assert (long.taken, short.taken) == (0, 0)
    for turns in ((1, 1), (2, 1), (3, 1), (3, 1)):
        await asyncio.sleep(0)
        assert (long.taken, short.taken) == turns
    assert not rounds.busy()


async def test_a_round_is_over_when_its_time_is(clock):
    """Who is left goes first in the next one."""
    rounds = Rounds()
    backlogs = [Backlog(rounds, clock, 2, ROUND_SECONDS / 2) for _ in range(4)]
    for taken in ([1, 1, 0, 0], [1, 1, 1, 1], [2, 2, 1, 1], [2, 2, 2, 2]):
        assert rounds.busy()
        await asyncio.sleep(0)
        assert [each.taken for each in backlogs] == taken
    assert not rounds.busy()


async def test_a_turn_that_takes_longer_than_a_round_is_taken(clock):
    rounds = Rounds()
    backlogs = [Backlog(rounds, clock, 1, 3 * ROUND_SECONDS) for _ in range(2)]
    await asyncio.sleep(0)
    assert [each.taken for each in backlogs] == [1, 0]
    await asyncio.sleep(0)
    assert [each.taken for each in backlogs] == [1, 1]


async def test_a_place_can_be_given_up(clock):
    rounds = Rounds()
    first, second = Backlog(rounds, clock), Backlog(rounds, clock)
    first.turn.cancel()
    await asyncio.sleep(0)
    assert (first.taken, second.taken) == (0, 1)


async def test_a_turn_that_raises_costs_nobody_else_theirs(clock):
    rounds = Rounds()
    said = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    rounds.soon(lambda: 1 / 0)
    behind = Backlog(rounds, clock)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert behind.taken == 1
    assert [type(each["exception"]) for each in said] == [ZeroDivisionError]


def test_a_loop_that_has_ended_is_waited_for_by_nobody(clock):
    rounds = Rounds()

    async def leave():
        rounds.soon(lambda: None)

    async def come():
        assert not rounds.busy()
        backlog = Backlog(rounds, clock)
        assert rounds.busy()
        await asyncio.sleep(0)
        return backlog.taken

    asyncio.run(leave())
    assert asyncio.run(come()) == 1


async def test_one_task_takes_a_turn_behind_each_round(clock):
    """However many tasks wait, those who take their turns at once wait for one of them."""
    rounds = Rounds()
    woken = []
    for number in range(3):
        rounds.wake_soon(lambda number=number: woken.append(number))
    at_once = Backlog(rounds, clock, 3, ROUND_SECONDS)
    for count in (1, 2, 3):
        assert rounds.busy()
        await asyncio.sleep(0)
        assert (at_once.taken, woken) == (count, list(range(count)))
    assert not rounds.busy()


async def test_a_woken_task_works_before_the_next_round(clock):
    rounds = Rounds()
    worked = []

    async def work(number):
        for _ in range(2):
            turn = asyncio.get_running_loop().create_future()
            rounds.wake_soon(lambda turn=turn: turn.set_result(len(worked)))
            before = await turn
            assert before == len(worked), "each has worked before the next is woken"
            worked.append(number)

    await asyncio.gather(work(1), work(2))
    assert worked == [1, 2, 1, 2]


async def test_a_tasks_place_can_be_given_up(clock):
    rounds = Rounds()
    woken = []
    rounds.wake_soon(lambda: woken.append(1)).cancel()
    rounds.wake_soon(lambda: woken.append(2))
    await asyncio.sleep(0)
    assert woken == []
    await asyncio.sleep(0)
    assert woken == [2]
