"""storage.model_data.shared_work: several ask, one does it, and nothing is left unheld."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.storage.model_data.shared_work import SharedWork, WorkEnded

pytestmark = pytest.mark.usefixtures("no_leaks")


class Made:
    """Counts its holders, the work's own hold included."""

    def __init__(self) -> None:
        self.holders = 1

    def take(self) -> Made:
        self.holders += 1
        return self


class Trial:
    """Work that ends when the test says so."""

    def __init__(self) -> None:
        self.begun = 0
        self.returned = False
        self.made = Made()
        self.end = asyncio.Event()
        self.error: Exception | None = None
        self.shared = SharedWork[Made](self._let_go)

    def _let_go(self, made: Made) -> None:
        made.holders -= 1

    async def _work(self) -> Made:
        self.begun += 1
        await self.end.wait()
        if self.error is not None:
            raise self.error
        self.returned = True
        return self.made

    def ask(self) -> asyncio.Task[Made]:
        return asyncio.create_task(self.shared.done("key", self._work, Made.take))


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_it_is_done_once_and_each_holds_it():
    trial = Trial()
    asking = [trial.ask() for _ in range(3)]
    await turns()
    trial.end.set()
    assert await asyncio.gather(*asking) == [trial.made] * 3
    assert (trial.begun, trial.made.holders) == (1, 3)


async def test_what_goes_wrong_goes_wrong_for_all():
    trial = Trial()
    trial.error = ValueError("no")
    asking = [trial.ask() for _ in range(2)]
    trial.end.set()
    assert await asyncio.gather(*asking, return_exceptions=True) == [trial.error] * 2
    trial.error = None
    assert await trial.ask() is trial.made
    assert trial.begun == 2


async def test_it_goes_on_for_those_who_stay():
    trial = Trial()
    leaving, staying = trial.ask(), trial.ask()
    await turns()
    leaving.cancel()
    await turns()
    assert leaving.cancelled()
    trial.end.set()
    assert await staying is trial.made
    assert (trial.begun, trial.made.holders) == (1, 1)


async def test_it_ends_with_the_last_one():
    trial = Trial()
    asking = [trial.ask() for _ in range(2)]
    await turns()
    for each in asking:
        each.cancel()
    await asyncio.wait(asking)
    assert all(each.cancelled() for each in asking)
    again = trial.ask()
    trial.end.set()
    assert await again is trial.made
    assert (trial.begun, trial.made.holders) == (2, 1)


@pytest.mark.parametrize("passed", range(6))
async def test_a_result_that_comes_as_the_last_one_leaves_is_let_go(passed):
    trial = Trial()
    asking = trial.ask()
    await turns()
    trial.end.set()
    for _ in range(passed):
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    await turns()
    if trial.returned:
        assert trial.made.holders == (0 if asking.cancelled() else 1)
    else:
        assert asking.cancelled()


async def test_work_that_ends_well_all_the_same_is_let_go():
    trial = Trial()

    async def stubborn() -> Made:
        try:
            await trial.end.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return trial.made

    asking = asyncio.create_task(trial.shared.done("key", stubborn, Made.take))
    await turns()
    asking.cancel()
    await asyncio.wait([asking])
    await turns()
    assert asking.cancelled()
    assert trial.made.holders == 0


async def test_who_waits_when_all_is_broken_off_hears_so():
    trial = Trial()
    asking = trial.ask()
    await turns()
    await trial.shared.aclose()
    with pytest.raises(WorkEnded):
        await asking
    await trial.shared.aclose()


async def test_what_nobody_waits_for_any_more_has_ended_when_all_has_been_broken_off():
    """Also where the last one that waited was cancelled again, and has not waited for its end."""
    trial, ended = Trial(), []

    async def slow_to_end() -> Made:
        try:
            await trial.end.wait()
        finally:
            await turns()
            ended.append(True)
        return trial.made

    asking = asyncio.create_task(trial.shared.done("key", slow_to_end, Made.take))
    await turns()
    for _ in range(2):
        asking.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([asking])
    assert not ended
    await trial.shared.aclose()
    assert ended
