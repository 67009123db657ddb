"""The metrics of a gateway with workers: one page, made of those of all processes."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from partway.gateway.limits import METRICS_AGE
from partway.gateway.metrics.merged_pages import counters_of, merged_pages
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import set_or_over
from partway.gateway.workers.limits import METRICS_TIMEOUT
from partway.gateway.workers.messages import GiveMetrics

#: The name of the counters of workers that have ended, beside the numbers of those that run.
_ENDED = "ended"


class WorkerPages:
    """Collects the pages of workers, once a second at most and for all scrapes together.

    A worker that answers late counts as at the last time. So counters never fall, which Prometheus
    would take for a restart.

    Args:
        registry: the parent's own metrics.
        ask: sends a message to all workers; returns the numbers of those that will get it.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        ask: Callable[[GiveMetrics], set[int]],
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._ask = ask
        self._clock = clock
        self._page = b""
        self._page_made_at = -math.inf
        self._making: asyncio.Task[bytes] | None = None
        #: Of the last question, and the workers whose answer is awaited.
        self._number = 0
        self._awaited: set[int] = set()
        self._complete = asyncio.Event()
        #: The last page of each running worker.
        self._last: dict[int, str] = {}
        #: The counters of workers that have ended.
        self._ended = ""

    async def page(self) -> bytes:
        """Return the page of all processes."""
        if time.monotonic() - self._page_made_at < METRICS_AGE:
            return self._page
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._make(), name="metrics of workers")
        return await asyncio.shield(self._making)  # other scrapes wait for it too

    async def _make(self) -> bytes:
        self._number += 1
        self._complete.clear()
        self._awaited = self._ask(GiveMetrics(self._number))
        if self._awaited:
            await set_or_over(self._complete, self._clock, METRICS_TIMEOUT)
        own = generate_latest(self._registry).decode()
        others = {str(number): page for number, page in self._last.items()}
        self._page = merged_pages(own, {_ENDED: self._ended, **others})
        self._page_made_at = time.monotonic()
        return self._page

    def came(self, worker: int, number: int, page: str) -> None:
        """Take a worker's page, the answer to the question with a number."""
        if page:  # else it was too long
            self._last[worker] = page
        if number == self._number:
            self._has_answered(worker)

    def ended(self, worker: int) -> None:
        """Keep the counters of a worker whose process has ended."""
        page = self._last.pop(worker, None)
        if page is not None:
            self._ended = counters_of((self._ended, page))
        self._has_answered(worker)

    def keep_only(self, endpoints: Collection[str]) -> None:
        """Drop the counters of all endpoints but these, the only ones left."""
        self._ended = counters_of((self._ended,), endpoints)

    async def aclose(self) -> None:
        if self._making is not None:
            self._making.cancel()
            await asyncio.wait((self._making,))

    def _has_answered(self, worker: int) -> None:
        self._awaited.discard(worker)
        if not self._awaited:
            self._complete.set()
