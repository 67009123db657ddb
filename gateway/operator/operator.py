"""Operator: leads or waits, and keeps a cluster as its custom objects say."""

from __future__ import annotations

import asyncio
import logging
import socket
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from partway.gateway.apis.kubernetes.controller import EndpointController, rfc3339
from partway.gateway.cluster.answers import ClusterError
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.cluster_settings import ClusterSettings
from partway.gateway.cluster.leases import Leadership
from partway.gateway.cluster.watched_collection import WatchedCollection
from partway.gateway.operator.cluster_endpoints import ClusterEndpoints
from partway.gateway.operator.cluster_objects import ClusterObjects
from partway.gateway.operator.limits import RETRY_INTERVAL
from partway.gateway.operator.model_deployments import ModelData, model_faults
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import pause
from partway.log_lines import LogLine

log = logging.getLogger("partway.operator")

#: The name of the Lease, one in each namespace.
LEASE: Final = "partway-operator"


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """Attributes of an operator.

    Attributes:
        domain: the suffix of the domain names of endpoints that objects show.
        data: how pods get model data.
    """

    cluster: ClusterSettings
    domain: str = "localhost"
    data: ModelData = field(default_factory=ModelData)


class Operator:
    """One of several operators of a namespace, of which one acts.

    Args:
        wall_clock: returns epoch seconds.
    """

    def __init__(
        self, settings: OperatorSettings, clock: Clock, wall_clock: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._wall_clock = wall_clock
        self._copies: tuple[WatchedCollection, ...] = ()
        # The lease has connections of its own: no other request delays a renewal.
        self._lease_server = ApiServer(settings.cluster, clock)
        identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
        self.leadership = Leadership(self._lease_server, LEASE, identity, clock, wall_clock)
        self._server = ApiServer(settings.cluster, clock, self.leadership.check_write)

    @property
    def copies(self) -> Collection[WatchedCollection]:
        """The collections that are followed; none while another operator leads."""
        return self._copies

    async def run(self) -> None:
        """Lead whenever no other one does, until cancelled."""
        try:
            await self.leadership.lead(self._act)
        finally:
            await self._server.aclose()
            await self._lease_server.aclose()

    async def _act(self) -> None:
        """Keep the cluster as its objects say, until cancelled."""

        def now() -> str:
            return rfc3339(self._wall_clock())

        objects = ClusterObjects(
            self._server,
            self._clock,
            lambda model: model_faults(model, self._settings.data),
            now,
            self._settings.domain,
        )
        endpoints = ClusterEndpoints(self._server, objects, self._clock, self._settings.data)
        controller = EndpointController(
            objects, endpoints, self._clock, self._wall_clock, self._settings.domain
        )
        try:
            await self._prepared(endpoints)
            self._copies = (*objects.copies, *endpoints.copies)
            for copy in self._copies:
                copy.start()
            for copy in self._copies:
                await copy.listed.wait()
            controller.start()
            await asyncio.Event().wait()
        finally:
            await controller.aclose()
            await objects.aclose()
            for copy in self._copies:
                await copy.aclose()
            self._copies = ()

    async def _prepared(self, endpoints: ClusterEndpoints) -> None:
        while True:
            try:
                await endpoints.prepare()
            except ClusterError as error:
                log.warning(
                    LogLine("the API server cannot be asked; trying again", reason=str(error))
                )
                await pause(self._clock, RETRY_INTERVAL)
            else:
                return
