"""What the gateway says of itself: /healthz, /readyz, /metrics."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from gateway.serving.exchange import Exchange
from gateway.streams.registry import Streams

_TEXT = {"Content-Type": "text/plain; charset=utf-8"}


class Status:
    """The three operations.

    Args:
        streams: whose state they tell.
    """

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    async def healthz(self, exchange: Exchange, _: Mapping[str, str]) -> None:
        """200 as long as the process answers: restart it when it does not."""
        exchange.respond(200, b"ok\n", _TEXT)

    async def readyz(self, exchange: Exchange, _: Mapping[str, str]) -> None:
        """200 while new streams are taken, 503 when draining: send no more here then."""
        if self._streams.draining:
            exchange.respond(503, b"draining\n", _TEXT)
        else:
            exchange.respond(200, b"ready\n", _TEXT)

    async def metrics(self, exchange: Exchange, _: Mapping[str, str]) -> None:
        """Prometheus's text format."""
        body = generate_latest(self._streams.metrics.registry)
        exchange.respond(200, body, {"Content-Type": CONTENT_TYPE_LATEST})
