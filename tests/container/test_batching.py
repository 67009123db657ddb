"""partway.container.batching: which items are computed together, and what each of them gets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from partway import Batcher, Busy


class Crew:
    """Workers whose calls wait for their gate."""

    def __init__(self) -> None:
        self.calls: list[list[Any]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.called = asyncio.Event()  # while the gate was closed

    async def run(self, method: Any, /, *args: Any) -> Any:
        self.calls.append(list(args[0]))
        if not self.gate.is_set():
            self.called.set()
        await self.gate.wait()
        return method(*args)


def doubled(items: list[int]) -> list[int]:
    return [2 * item for item in items]


async def test_items_leave_together_once_the_batch_is_full():
    crew = Crew()
    batcher = Batcher(crew, doubled, max_size=3, max_wait=60)
    assert await asyncio.gather(*map(batcher.run, range(6))) == [0, 2, 4, 6, 8, 10]
    assert crew.calls == [[0, 1, 2], [3, 4, 5]]


async def test_an_incomplete_batch_leaves_after_its_wait():
    crew = Crew()
    batcher = Batcher(crew, doubled, max_size=100, max_wait=0.01)
    assert await asyncio.gather(batcher.run(1), batcher.run(2)) == [2, 4]
    assert await batcher.run(3) == 6
    assert crew.calls == [[1, 2], [3]]


async def test_who_has_left_is_not_computed_and_disturbs_nobody():
    crew = Crew()
    batcher = Batcher(crew, doubled, max_size=3, max_wait=60)
    lost = asyncio.create_task(batcher.run(1))
    await asyncio.sleep(0)
    lost.cancel()
    assert await asyncio.gather(batcher.run(2), batcher.run(3)) == [4, 6]
    assert crew.calls == [[2, 3]]
    crew.gate.clear()
    left, stays, third = (asyncio.create_task(batcher.run(n)) for n in (4, 5, 6))
    await crew.called.wait()
    left.cancel()
    crew.gate.set()
    assert await asyncio.gather(stays, third) == [10, 12]


async def test_an_exception_of_one_item_is_its_own_and_one_of_the_call_is_everybodys():
    def picky(items: list[int]) -> list[int | Exception]:
        if 9 in items:
            raise Busy("all places are taken")
        return [ValueError("odd") if item % 2 else item for item in items]

    batcher = Batcher(Crew(), picky, max_size=2, max_wait=60)
    even, odd = await asyncio.gather(batcher.run(2), batcher.run(3), return_exceptions=True)
    assert even == 2
    assert repr(odd) == "ValueError('odd')"
    both = await asyncio.gather(batcher.run(2), batcher.run(9), return_exceptions=True)
    assert [type(each) for each in both] == [Busy, Busy]


async def test_a_wrong_number_of_results_is_a_fault():
    batcher = Batcher(Crew(), lambda items: [1], max_size=2, max_wait=60)
    both = await asyncio.gather(batcher.run(2), batcher.run(9), return_exceptions=True)
    assert [str(each) for each in both] == ["<lambda> returned 1 results for 2 items"] * 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_size": 0}, "max_size 0 was given; it must be 1 or more"),
        ({"max_wait": -1}, "max_wait -1 was given; it must be 0 to 60 seconds"),
        ({"max_wait": 61}, "max_wait 61 was given"),
    ],
)
def test_limits_out_of_range_are_named(options, says):
    with pytest.raises(ValueError, match=says):
        Batcher(Crew.__new__(Crew), doubled, **options)
