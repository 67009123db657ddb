"""partway.gateway.streams.stepwise_work: work that is done a step at a turn."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from partway.gateway.streams.stepwise_work import StepwiseWork
from tests.gateway.streams.fakes import FakeClock


class Working:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.faults: list[BaseException | None] = []
        self.steps = StepwiseWork(self.clock, lambda: self.faults.append(sys.exception()))
        self.done: list[object] = []

    def work(self, *steps: object) -> Iterator[None]:
        for each in steps:
            self.done.append(each)
            yield
        self.done.append("end")

    def turn(self) -> None:
        """One turn of the loop: the timers that are due when it begins."""
        for timer in [each for each in self.clock.armed if each.due <= self.clock.now]:
            if not timer.cancelled:
                timer.cancel()
                timer.callback()


@pytest.fixture
def working() -> Working:
    return Working()


def test_a_step_is_done_at_each_turn(working: Working) -> None:
    working.steps.begin(working.work(1, 2))
    assert (working.steps.under_way, working.done) == (True, [])
    working.turn()
    assert working.done == [1]
    working.turn()
    working.turn()
    assert working.done == [1, 2, "end"]
    assert not working.steps.under_way
    assert working.clock.armed == []


def test_work_is_held_and_goes_on(working: Working) -> None:
    working.steps.begin(working.work(1, 2))
    working.turn()
    working.steps.hold()
    working.turn()
    assert (working.steps.under_way, working.done) == (True, [1])
    working.steps.go_on()
    working.steps.go_on()  # it goes on already
    working.turn()
    assert working.done == [1, 2]


def test_a_step_may_hold_its_own_work(working: Working) -> None:
    def work() -> Iterator[None]:
        working.steps.hold()
        yield
        working.done.append("went on")

    working.steps.begin(work())
    working.turn()
    assert working.clock.armed == []
    working.steps.go_on()
    working.turn()
    assert (working.done, working.steps.under_way) == (["went on"], False)


def test_work_that_is_given_up(working: Working) -> None:
    working.steps.begin(working.work(1, 2))
    working.turn()
    working.steps.stop()
    working.steps.go_on()
    working.turn()
    assert (working.steps.under_way, working.done, working.clock.armed) == (False, [1], [])


def test_the_end_of_work_may_begin_other_work(working: Working) -> None:
    def work() -> Iterator[None]:
        yield
        working.steps.stop()
        working.steps.begin(working.work("other"))

    working.steps.begin(work())
    for _ in range(4):
        working.turn()
    assert (working.done, working.steps.under_way) == (["other", "end"], False)


def test_a_step_that_raises_ends_the_work(working: Working) -> None:
    def work() -> Iterator[None]:
        yield
        raise KeyError("ours")

    working.steps.begin(work())
    working.turn()
    working.turn()
    (fault,) = working.faults
    assert isinstance(fault, KeyError)
    assert (working.steps.under_way, working.clock.armed) == (False, [])
