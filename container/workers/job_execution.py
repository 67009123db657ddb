"""Doing a job, on the worker that does it: a thread of this process, or a process of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from partway.container.threads import ordinary


class Gate:
    """How far a worker may go: how many items its generator may run ahead of the client.

    The worker waits at it; another thread grants, or closes it because nobody waits any more.

    Args:
        items: how many items may come to begin with.
    """

    def __init__(self, items: int) -> None:
        self._items = items
        self._closed = False
        self._changed = threading.Condition()

    @property
    def closed(self) -> bool:
        """Whether nobody waits for this job any more."""
        return self._closed

    def grant(self, items: int) -> None:
        """Let ``items`` more items come."""
        with self._changed:
            self._items += items
            self._changed.notify()

    def close(self) -> None:
        """Let no more items come."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def enter(self) -> bool:
        """Wait until one more item may come; False once no item may come any more.

        The wait has no limit of its own: the job's deadline closes the gate.
        """
        with self._changed:
            while not self._closed and not self._items:
                self._changed.wait()
            self._items -= 1
            return not self._closed


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job.

    Attributes:
        value: what the job's method returned; None for a generator.
        error: what the method raised; None if it raised nothing.
    """

    value: Any = None
    error: Exception | None = None


def perform(call: Callable[[], object], gate: Gate, emit: Callable[[Any], None] | None) -> Outcome:
    """Do a job. Nothing that the job raises gets past this: the worker goes on.

    Args:
        call: calls the method.
        gate: the job's.
        emit: takes each item that a generator yields; None for a method that returns.
    """
    try:
        if gate.closed:
            return Outcome()
        if emit is None:
            return Outcome(call())
        _produce(call(), gate, emit)
        return Outcome()
    except BaseException as error:
        return Outcome(error=ordinary(error))


def _produce(made: Any, gate: Gate, emit: Callable[[Any], None]) -> None:
    if not isinstance(made, Iterable):
        raise TypeError(
            f"the method of iterate() must be a generator, not return {type(made).__name__}"
        )
    items = iter(made)
    try:
        while gate.enter():
            try:
                item = next(items)
            except StopIteration:
                return
            emit(item)
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()  # here, on the worker: its ``finally`` blocks run where it computed
