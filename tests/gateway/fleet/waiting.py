"""Waiting for processes, and for what they print."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psutil

#: Nothing here takes this long, in seconds: a busy machine may be slow to start a process.
PATIENCE = 30

_T = TypeVar("_T")


async def soon(what: Awaitable[_T]) -> _T:
    return await asyncio.wait_for(what, PATIENCE)


async def eventually(condition: Callable[[], object]) -> None:
    """Wait for a state that nothing tells of."""

    async def look() -> None:
        while not condition():  # noqa: ASYNC110 (nobody sets an event)
            await asyncio.sleep(0.005)

    await soon(look())


def is_gone(pid: int) -> bool:
    """Whether a process has ended; a zombie is its parent's affair."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def until_gone(pid: int) -> None:
    await eventually(lambda: is_gone(pid))


class Output:
    def __init__(self) -> None:
        self.data = b""
        self.has_line = asyncio.Event()

    def take(self, data: bytes) -> None:
        self.data += data
        if b"\n" in self.data:
            self.has_line.set()

    async def first_line(self) -> bytes:
        await soon(self.has_line.wait())
        return self.data.partition(b"\n")[0]
