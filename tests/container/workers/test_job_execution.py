"""Doing a job: the gate, and what becomes of what a method does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from partway.container.workers.job_execution import Gate, Outcome, perform


class Entering:
    """A thread that goes through a gate as often as it may."""

    def __init__(self, gate: Gate) -> None:
        self.entered = threading.Semaphore(0)
        self.times = 0
        self._gate = gate
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while self._gate.enter():
            self.times += 1
            self.entered.release()

    def has_entered(self, times: int) -> bool:
        return all(self.entered.acquire(timeout=5) for _ in range(times))


def test_as_many_enter_as_may() -> None:
    gate = Gate(3)
    entering = Entering(gate)
    assert entering.has_entered(3)
    gate.grant(2)
    assert entering.has_entered(2)
    gate.close()
    entering.thread.join(5)
    assert not entering.thread.is_alive()
    assert entering.times == 5


def test_a_closed_gate_lets_nobody_in() -> None:
    gate = Gate(3)
    gate.close()
    assert gate.closed
    assert not gate.enter()
    gate.grant(1)
    assert not gate.enter()


def test_a_result() -> None:
    assert perform(lambda: 5, Gate(0), None) == Outcome(value=5)


def test_a_failure() -> None:
    error = MemoryError()

    def fail() -> None:
        raise error

    assert perform(fail, Gate(0), None) == Outcome(error=error)


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), StopIteration()])
def test_nothing_gets_past_it(error: BaseException) -> None:
    def fail() -> None:
        raise error

    outcome = perform(fail, Gate(0), None)
    assert isinstance(outcome.error, RuntimeError)
    assert outcome.error.__cause__ is error


def test_what_nobody_waits_for_does_not_begin() -> None:
    gate = Gate(1)
    gate.close()
    called: list[int] = []
    assert perform(lambda: called.append(1), gate, None) == Outcome()
    assert not called


class Numbers:
    """A generator that says when it was closed, and on which thread."""

    def __init__(self) -> None:
        self.made = 0
        self.closed_on: str | None = None

    def __call__(self) -> Iterator[int]:
        try:
            while True:
                self.made += 1
                yield self.made
        finally:
            self.closed_on = threading.current_thread().name


def test_items_are_passed_on_one_by_one() -> None:
    items: list[int] = []
    assert perform(lambda: iter((1, 2, 3)), Gate(9), items.append) == Outcome()
    assert items == [1, 2, 3]


def test_a_generator_goes_no_further_than_it_may() -> None:
    numbers, gate, fourth = Numbers(), Gate(4), threading.Event()

    def emit(item: int) -> None:
        if item == 4:
            fourth.set()

    worker = threading.Thread(target=perform, args=(numbers, gate, emit), name="a-worker")
    worker.start()
    assert fourth.wait(5)
    gate.close()
    worker.join(5)
    assert numbers.made == 4
    assert numbers.closed_on == "a-worker"


def test_it_stops_at_the_item_at_which_it_was_given_up() -> None:
    numbers, gate = Numbers(), Gate(9)
    items: list[int] = []

    def emit(item: int) -> None:
        items.append(item)
        gate.close()

    assert perform(numbers, gate, emit) == Outcome()
    assert items == [1]
    assert numbers.closed_on is not None


def test_an_item_that_cannot_be_passed_on_ends_it() -> None:
    numbers = Numbers()

    def emit(item: int) -> None:
        raise TypeError("cannot cross")

    assert isinstance(perform(numbers, Gate(9), emit).error, TypeError)
    assert numbers.closed_on is not None


def test_a_generator_that_does_not_stop_when_it_is_closed() -> None:
    def stubborn() -> Iterator[int]:
        try:
            yield 1
        except GeneratorExit:
            yield 2

    gate = Gate(9)
    outcome = perform(stubborn, gate, lambda item: gate.close())
    assert isinstance(outcome.error, RuntimeError)


@pytest.mark.parametrize("made", [5, None])
def test_what_is_no_generator(made: Any) -> None:
    outcome = perform(lambda: made, Gate(9), lambda item: None)
    assert isinstance(outcome.error, TypeError)
    assert type(made).__name__ in str(outcome.error)
