"""A gateway's page of metrics, and a port that has it."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from partway.gateway.cluster.endpoint_slices import ServiceInstance
from partway.gateway.fleet.metrics import FleetMetrics
from partway.gateway.fleet.status import EndpointStatus
from partway.gateway.operator.gateway_pages import GatewayPages
from tests.gateway.streams.fakes import FakeClock


def page_of(*endpoints: EndpointStatus) -> bytes:
    registry = CollectorRegistry()
    FleetMetrics(lambda: endpoints, registry)
    return generate_latest(registry)


class Answering:
    """A gateway's port, with an answer that a test sets."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] = {"body": page_of()}
        self.clock = FakeClock()
        self.asked: list[str] = []
        self.is_silent = False

    async def start(self) -> None:
        self.pages = GatewayPages(self.clock)
        application = web.Application()
        application.router.add_get("/{any:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        if self.is_silent:
            await asyncio.Event().wait()
        return web.Response(**self.answer)

    def gateway(self, port: int = 0) -> ServiceInstance:
        return ServiceInstance("key", "g", "127.0.0.1", port or self.port)

    async def aclose(self) -> None:
        await self.pages.aclose()
        await self._runner.cleanup()
