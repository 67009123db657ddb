"""Who is woken in which turn of the loop."""

from __future__ import annotations

import asyncio

from partway.container.fair_scheduling import HandlerScheduler
from tests.container.wire import PATIENCE


class Sleepers:
    """Tasks that wait for turns, and note the turn of the loop in which each was woken."""

    def __init__(self, scheduler: HandlerScheduler) -> None:
        self._scheduler = scheduler
        self._loop = asyncio.get_running_loop()
        self.woken_in: list[tuple[int, int]] = []
        self._turn = 0
        self._counting: asyncio.Handle | None = None

    def futures(self, count: int) -> list[asyncio.Future[None]]:
        """So many to be woken."""
        return [self._future(number) for number in range(count)]

    async def wake(self, futures: list[asyncio.Future[None]]) -> list[int]:
        """Wake them all at once; how many woke in each turn, in order."""
        self._turn = 0
        self._counting = self._loop.call_soon(self._count)
        for future in futures:
            self._scheduler.wake(future)
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*futures, return_exceptions=True)
        # Since 3.12 gather does not wait for futures that are done: their callbacks are due next.
        await asyncio.sleep(0)
        self._counting.cancel()
        numbers = [number for number, _ in self.woken_in]
        assert numbers == sorted(numbers), "not in their order"
        turns = [turn for _, turn in self.woken_in]
        return [turns.count(turn) for turn in sorted(set(turns))]

    def _future(self, number: int) -> asyncio.Future[None]:
        future = self._loop.create_future()
        future.add_done_callback(lambda _: self.woken_in.append((number, self._turn)))
        return future

    def _count(self) -> None:
        self._turn += 1
        self._counting = self._loop.call_soon(self._count)


async def test_a_few_are_woken_at_once() -> None:
    sleepers = Sleepers(HandlerScheduler(at_least=3, share=10))
    assert await sleepers.wake(sleepers.futures(3)) == [3]


async def test_the_others_wait_for_the_next_turns_in_their_order() -> None:
    sleepers = Sleepers(HandlerScheduler(at_least=3, share=10))
    assert await sleepers.wake(sleepers.futures(10)) == [3, 3, 3, 1]


async def test_the_more_wait_the_more_are_woken() -> None:
    sleepers = Sleepers(HandlerScheduler(at_least=2, share=4))
    # 2 at once; then a quarter of 38, of 29, of 22, of 17, of 13, of 10, and two at a time.
    assert await sleepers.wake(sleepers.futures(40)) == [2, 9, 7, 5, 4, 3, 2, 2, 2, 2, 2]


async def test_one_that_has_given_up_takes_nobodys_place() -> None:
    sleepers = Sleepers(HandlerScheduler(at_least=2, share=10))
    futures = sleepers.futures(6)
    asyncio.get_running_loop().call_soon(futures[2].cancel)
    asyncio.get_running_loop().call_soon(futures[3].cancel)
    await sleepers.wake(futures)
    woken = dict(sleepers.woken_in)
    assert woken[4] == woken[5] == woken[0] + 1


async def test_at_rest_it_asks_nothing_of_the_loop() -> None:
    turns = HandlerScheduler(at_least=2, share=10)
    sleepers = Sleepers(turns)
    await sleepers.wake(sleepers.futures(5))
    for _ in range(5):
        await asyncio.sleep(0)
    assert turns.idle
    # and after it everything is as at first
    sleepers.woken_in.clear()
    assert await sleepers.wake(sleepers.futures(4)) == [2, 2]
