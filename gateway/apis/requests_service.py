"""The service for requests to containers' ``/invocations``, shared by all APIs that send them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from partway.gateway.containers.connections import ContainerConnections
from partway.gateway.containers.invocation import Invocations
from partway.gateway.containers.metrics import RequestMetrics
from partway.gateway.containers.requests_in_progress import RequestsUnderWay
from partway.gateway.service import Service

if TYPE_CHECKING:
    from partway.gateway.core import Core


class RequestsService(Service):
    """The requests in flight, and the connections to containers.

    Attributes:
        under_way: the requests in flight.
        invocations: calls instances.
    """

    def __init__(self, core: Core) -> None:
        settings = core.settings
        self.under_way = RequestsUnderWay(
            settings.max_requests,
            settings.requests_per_principal,
            counts=core.counts,
            gateways=core.gateways,
        )
        self._connections = ContainerConnections()
        self._metrics = RequestMetrics(core.streams.metrics.registry)
        self.invocations = Invocations(
            core.router,
            self._connections,
            self.under_way,
            self._metrics,
            core.arns,
            settings.max_invocation_body,
        )

    def keep_only(self, endpoints: Collection[str]) -> None:
        """Remove the metrics of all other endpoints."""
        self._metrics.keep_only(endpoints)

    def hasten(self) -> None:
        """Cut the drain short."""
        self.under_way.hasten()

    async def drain(self, grace: float) -> None:
        """Accept no new requests, and wait for requests in flight."""
        await self.under_way.drain(grace)

    async def stop(self) -> None:
        """Close idle connections: a container that stops waits for their end."""
        self._connections.close()
