"""Waiting: for a time by an injected clock, and for the first of several events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from partway.gateway.clock import Clock

_T = TypeVar("_T")


@asynccontextmanager
async def time_limit(clock: Clock, seconds: float) -> AsyncIterator[None]:
    """As :func:`asyncio.timeout`, by a clock of the caller's.

    Args:
        clock: measures the time.
        seconds: for what is in the block.

    Raises:
        TimeoutError: the block took longer; what it awaited is cancelled.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:
        timer = clock.call_later(seconds, lambda: limit.reschedule(loop.time()))
        try:
            yield
        finally:
            timer.cancel()


async def pause(clock: Clock, seconds: float) -> None:
    """As :func:`asyncio.sleep`, by a clock of the caller's."""
    over = asyncio.Event()
    timer = clock.call_later(seconds, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()


async def set_or_over(event: asyncio.Event, clock: Clock, seconds: float) -> None:
    """Wait until an event is set, but no longer than so many seconds by a clock of the caller's."""
    with suppress(TimeoutError):
        async with time_limit(clock, seconds):
            await event.wait()


async def first_of(*events: asyncio.Event) -> None:
    """Wait until one of the events is set."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def before(event: asyncio.Event, work: Coroutine[Any, Any, _T]) -> _T | None:
    """Work as long as an event is not set.

    Returns:
        What ``work`` returns; None if the event was set before: ``work`` has been cancelled then.
    """
    working = asyncio.create_task(work)
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, waiting):
            task.cancel()
        await asyncio.wait((working, waiting))
    return None if working.cancelled() else working.result()
