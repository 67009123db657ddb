"""Execution of a job on its worker, a thread or a process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from partway.container.threads import ordinary


class Gate:
    """Limits how many items a worker's generator may run ahead of the client.

    The worker waits at the gate. Another thread grants items, or closes the gate when the job is no
    longer wanted.

    Args:
        items: number of items allowed at the beginning.
    """

    def __init__(self, items: int) -> None:
        self._items = items
        self._closed = False
        self._changed = threading.Condition()

    @property
    def closed(self) -> bool:
        return self._closed

    def grant(self, items: int) -> None:
        with self._changed:
            self._items += items
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def enter(self) -> bool:
        """Wait until one more item may come; return False once the gate is closed.

        The wait has no limit of its own: the job's deadline closes the gate.
        """
        with self._changed:
            while not self._closed and not self._items:
                self._changed.wait()
            self._items -= 1
            return not self._closed


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a job.

    Attributes:
        value: the return value of the job's method; None for a generator.
    """

    value: Any = None
    error: Exception | None = None


def perform(call: Callable[[], object], gate: Gate, emit: Callable[[Any], None] | None) -> Outcome:
    """Do a job. Its exceptions are caught, so that the worker goes on.

    ``emit`` takes each item that a generator yields; it is None for a method that returns.
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
            f"the method of iterate() returned {type(made).__name__}; it must be a generator"
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
            close()  # here, so that ``finally`` blocks run on the worker
