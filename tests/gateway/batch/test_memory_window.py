"""partway.gateway.batch.memory_window: how many bodies and answers are in memory."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.batch.limits import WAITING_BYTES, WAITING_FACTOR
from partway.gateway.batch.memory_window import Window
from tests.gateway.fleet.fakes import turns
from tests.gateway.fleet.waiting import soon

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


async def waiting(window, size):
    task = asyncio.create_task(window.take(size))
    await turns(3)
    return task


async def test_as_many_as_are_asked_however_large():
    window = Window(2)
    for _ in range(2):
        await soon(window.take(WAITING_BYTES))
    third = await waiting(window, 1)
    assert not third.done()
    third.cancel()


async def test_small_ones_wait_for_the_first():
    window = Window(2)
    first, *_ = [await soon(window.take(1)) for _ in range(2 * WAITING_FACTOR)]
    task = await waiting(window, 1)
    assert not task.done()
    first.free()
    first.free()
    await soon(task)
    again = await waiting(window, 1)
    assert not again.done(), "what is freed twice is free once"
    again.cancel()


async def test_an_answer_that_is_larger_holds_up_and_one_that_is_smaller_lets_go():
    window = Window(1)
    place = await soon(window.take(1))
    place.holds(WAITING_BYTES)
    tasks = [await waiting(window, 1) for _ in range(3)]
    assert not any(task.done() for task in tasks)
    place.holds(1)
    for task in tasks:
        await soon(task)


async def test_who_leaves_while_waiting_takes_nobody_s_turn():
    window = Window(1)
    place = await soon(window.take(WAITING_BYTES))
    first, second = await waiting(window, 1), await waiting(window, 1)
    place.free()
    first.cancel()
    await soon(second)
