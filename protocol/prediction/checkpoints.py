"""Checkpoints in long work: the work ends at one if its caller has left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_check: Final[ContextVar[Callable[[], None] | None]] = ContextVar("checkpoint", default=None)


def checkpoint() -> None:
    """Continue, or raise the exception by which the caller ends the work."""
    check = _check.get()
    if check is not None:
        check()


@contextmanager
def checked_by(check: Callable[[], None]) -> Iterator[None]:
    """Have the block's checkpoints call ``check`` on their thread; it raises to end the work."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)
