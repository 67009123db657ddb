"""Status of the gateway: /healthz, /readyz, /metrics."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Awaitable, Callable

from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from partway.gateway.access.authentication import Access
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.routes import READING, Route
from partway.gateway.limits import METRICS_AGE
from partway.gateway.streams.registry import Streams

HEALTHZ = re.compile("/healthz")
READYZ = re.compile("/readyz")
METRICS = re.compile("/metrics")

_TEXT = {"Content-Type": "text/plain; charset=utf-8"}


class Status:
    """The operations /healthz, /readyz and /metrics.

    Args:
        is_ready: whether the endpoints have come up, or the wait for them is over.
    """

    def __init__(self, streams: Streams, is_ready: Callable[[], bool]) -> None:
        self._streams = streams
        self._is_ready = is_ready
        #: Returns the page of all processes of the gateway; None for the only process.
        self.page_of_all: Callable[[], Awaitable[bytes]] | None = None
        self._page = b""
        self._page_made_at = -math.inf

    @property
    def routes(self) -> tuple[Route, ...]:
        return (
            Route("Healthz", READING, HEALTHZ, self.healthz, Access.ANYONE, reserved=True),
            Route("Readyz", READING, READYZ, self.readyz, Access.ANYONE, reserved=True),
            Route("Metrics", READING, METRICS, self.metrics, Access.ANYONE, reserved=True),
        )

    @property
    def is_ready(self) -> bool:
        """Whether new streams and requests are taken."""
        return self._is_ready() and not self._streams.draining

    async def healthz(self, exchange: Exchange, *_: object) -> None:
        """Answer 200: a process that does not should be restarted."""
        exchange.respond(200, b"ok\n", _TEXT)

    async def readyz(self, exchange: Exchange, *_: object) -> None:
        """Answer 200 while new streams are taken; 503 before, and when draining."""
        if self._streams.draining:
            exchange.respond(503, b"draining\n", _TEXT)
        elif not self._is_ready():
            exchange.respond(503, b"starting\n", _TEXT)
        else:
            exchange.respond(200, b"ready\n", _TEXT)

    async def metrics(self, exchange: Exchange, *_: object) -> None:
        """Answer with the metrics, made once a second at most: that walks all open streams."""
        now = time.monotonic()
        if self.page_of_all is not None:
            self._page = await self.page_of_all()
        elif now - self._page_made_at >= METRICS_AGE:
            self._page, self._page_made_at = generate_latest(self._streams.metrics.registry), now
        exchange.respond(200, self._page, {"Content-Type": CONTENT_TYPE_LATEST})
