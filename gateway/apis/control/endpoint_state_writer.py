"""The writer of endpoints' states, which retries while the store refuses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from partway.gateway.apis.control.limits import STORE_RETRY_INTERVAL
from partway.gateway.storage.store.store import StoreError
from partway.gateway.timing.clock import Clock, Timer
from partway.log_lines import LogLine

log = logging.getLogger("partway.control")


class Notes:
    """A set of endpoints' names; a task writes the states of these endpoints one after the other.

    Args:
        write: writes the state of the endpoint of a name, if the state has changed.
    """

    def __init__(self, write: Callable[[str], Awaitable[None]], clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._names: set[str] = set()
        self._news = asyncio.Event()
        self._retry: Timer | None = None
        self._writing: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._writing = asyncio.create_task(self._write_all(), name="records of endpoints")

    def add(self, name: str) -> None:
        self._names.add(name)
        self._news.set()

    async def aclose(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait((self._writing,))

    async def _write_all(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            names, self._names = self._names, set()
            for name in sorted(names):
                try:
                    await self._write(name)
                except StoreError as error:
                    self._names.add(name)
                    self._try_again(name, str(error))
                except Exception:  # an unexpected exception must not end the writer
                    log.exception(
                        LogLine("an endpoint's state could not be recorded", endpoint=name)
                    )

    def _try_again(self, name: str, reason: str) -> None:
        log.warning(
            LogLine(
                "an endpoint's state cannot be stored; trying again", endpoint=name, reason=reason
            )
        )
        if self._retry is None:
            self._retry = self._clock.call_later(STORE_RETRY_INTERVAL, self._retried)

    def _retried(self) -> None:
        self._retry = None
        self._news.set()
