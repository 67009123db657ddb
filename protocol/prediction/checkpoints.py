"""Points in long work at which it ends early, if its caller no longer waits.

The work calls :func:`checkpoint` between its blocks. Its caller says what a checkpoint does, and
says nothing where the work is short. ``anyio.from_thread.check_cancelled`` is the precedent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_check: Final[ContextVar[Callable[[], None] | None]] = ContextVar("checkpoint", default=None)


def checkpoint() -> None:
    """Go on, unless the caller of the work wants it to end.

    Raises:
        Exception: the caller's own, by which the work ends.
    """
    check = _check.get()
    if check is not None:
        check()


@contextmanager
def checked_by(check: Callable[[], None]) -> Iterator[None]:
    """Have the checkpoints in the block call a function.

    Args:
        check: raises to end the work; called on the thread that works.
    """
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)
