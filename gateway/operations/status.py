"""What the gateway says of itself: /healthz, /readyz, /metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from gateway.serving.exchange import Exchange

if TYPE_CHECKING:
    from gateway.gateway import Gateway

_TEXT = {"Content-Type": "text/plain; charset=utf-8"}


class Status:
    """The three operations.

    Args:
        gateway: whose state they tell.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def healthz(self, exchange: Exchange, _: Mapping[str, str]) -> None:
        """200 as long as the process answers: restart it when it does not."""
        exchange.respond(200, b"ok\n", _TEXT)

    async def readyz(self, exchange: Exchange, _: Mapping[str, str]) -> None:
        """200 while new streams are taken, 503 when draining: send no more here then."""
        if self._gateway.draining:
            exchange.respond(503, b"draining\n", _TEXT)
        else:
            exchange.respond(200, b"ready\n", _TEXT)

    async def metrics(self, exchange: Exchange, _: Mapping[str, str]) -> None:
        """Prometheus's text format."""
        body = generate_latest(self._gateway.metrics.registry)
        exchange.respond(200, body, {"Content-Type": CONTENT_TYPE_LATEST})
