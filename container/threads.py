"""Threads that the process does not wait for: model code may hang in them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

_Result = TypeVar("_Result")


def in_thread(call: Callable[..., _Result], *args: Any, name: str) -> asyncio.Future[_Result]:
    """Make a call on a thread of its own.

    The thread is a daemon: a call that never returns keeps no process from ending. Cancelling the
    future gives its result up, and does not end the call.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Result] = loop.create_future()

    def settle(result: _Result | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # the call's own

    def run() -> None:
        result: _Result | None = None
        failure: BaseException | None = None
        try:
            result = call(*args)
        except StopIteration as error:  # which no future takes
            failure = RuntimeError(f"{call!r} raised StopIteration")
            failure.__cause__ = error
        except BaseException as error:
            failure = error
        post(loop, settle, result, failure)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def post(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *args: Any) -> None:
    """Have the loop make a call, unless it is closed: then nobody waits for it."""
    try:
        loop.call_soon_threadsafe(call, *args)
    except RuntimeError:
        if not loop.is_closed():
            raise
