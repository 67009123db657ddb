"""Daemon threads for model code, which may hang: the process does not wait for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

_Result = TypeVar("_Result")


def in_thread(call: Callable[..., _Result], *args: Any, name: str) -> asyncio.Future[_Result]:
    """Make a call on a new thread.

    The thread is a daemon: a call that never returns does not keep the process from ending.
    Cancelling the future discards the result, but does not end the call.
    """
    future, make = deferred(call, *args)
    threading.Thread(target=make, name=name, daemon=True).start()
    return future


def deferred(
    call: Callable[..., _Result], *args: Any
) -> tuple[asyncio.Future[_Result], Callable[[], None]]:
    """Prepare a call that another thread will make.

    Returns:
        The future of the call's result, and a function that makes the call, once. An exception of
        the call goes to the future, converted by :func:`ordinary`.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Result] = loop.create_future()

    def settle(result: _Result | None, error: Exception | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # the call's own

    def make() -> None:
        try:
            result = call(*args)
        except BaseException as error:
            post(loop, settle, None, ordinary(error))
        else:
            post(loop, settle, result, None)

    return future, make


def ordinary(error: BaseException) -> Exception:
    """Convert an exception of a thread to one that a task may raise.

    Most exceptions are unchanged. SystemExit would end the loop, CancelledError would look like a
    cancelled task, and StopIteration like the end of an iterator. Each of these becomes a
    RuntimeError that names it.
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration):
        return error
    replacement = RuntimeError(f"the model's code raised {type(error).__name__}: {error}")
    replacement.__cause__ = error
    return replacement


def post(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *args: Any) -> None:
    """Have the loop make a call, unless the loop is closed: then the call is dropped."""
    try:
        loop.call_soon_threadsafe(call, *args)
    except RuntimeError:
        if not loop.is_closed():
            raise
