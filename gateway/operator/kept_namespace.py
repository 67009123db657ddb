"""KeptNamespace: keeps a namespace of a cluster as its custom objects say."""

from __future__ import annotations

import asyncio
import logging
from asyncio import FIRST_COMPLETED
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from partway.gateway.apis.kubernetes.controller import EndpointController, rfc3339
from partway.gateway.cluster.answers import ClusterError
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.watched_collection import WatchedCollection
from partway.gateway.operator.cluster_endpoints import ClusterEndpoints
from partway.gateway.operator.cluster_objects import ClusterObjects
from partway.gateway.operator.gateway_followers import GatewayFollowers
from partway.gateway.operator.limits import RETRY_INTERVAL
from partway.gateway.operator.model_deployments import ModelDataAccess
from partway.gateway.operator.model_faults import model_faults
from partway.gateway.operator.recent_deletions import RecentDeletions
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import pause
from partway.log_lines import LogLine

log = logging.getLogger("partway.operator")


@dataclass(frozen=True, slots=True)
class PodSettings:
    """The operator's settings for what it makes.

    Attributes:
        domain: the suffix of the domain names of endpoints that objects show.
        data: how pods get model data.
        gateways: the Service of all gateways, NAME or NAMESPACE/NAME; empty if none is known.
    """

    domain: str = "localhost"
    data: ModelDataAccess = field(default_factory=ModelDataAccess)
    gateways: str = ""


class KeptNamespace:
    """The namespace of an API server's settings. No other process may keep it at the same time.

    Args:
        wall_clock: returns epoch seconds.
        deletions: of unreachable pods; none by default.
    """

    def __init__(
        self,
        server: ApiServer,
        settings: PodSettings,
        clock: Clock,
        wall_clock: Callable[[], float],
        deletions: RecentDeletions | None = None,
    ) -> None:
        self._server = server
        self._settings = settings
        self._clock = clock
        self._objects = ClusterObjects(
            server,
            clock,
            lambda model: model_faults(model, settings.data),
            lambda: rfc3339(wall_clock()),
            settings.domain,
        )
        self._endpoints = ClusterEndpoints(server, self._objects, clock, settings.data)
        self._controller = EndpointController(
            self._objects, self._endpoints, clock, wall_clock, settings.domain
        )
        self._deletions = deletions or RecentDeletions(clock)
        self._copies: tuple[WatchedCollection, ...] = ()
        self._followers: GatewayFollowers | None = None

    @property
    def copies(self) -> Collection[WatchedCollection]:
        """The collections that are followed."""
        return (*self._copies, *(self._followers.copies if self._followers else ()))

    @property
    def has_listed(self) -> bool:
        """Whether all that it keeps has been listed once; what gateways tell may come later."""
        return bool(self._copies) and all(each.listed.is_set() for each in self._copies)

    @property
    def silent_gateways(self) -> int:
        """How many gateways have not told their streams for a while."""
        return self._followers.silent_gateways if self._followers else 0

    async def run(self) -> None:
        """Keep the namespace until cancelled.

        The end of a task of the gateways' followers is a fault, and is raised. The copies and the
        controller log an unforeseen exception, and go on.
        """
        try:
            await self._prepared()
            self._copies = (*self._objects.copies, *self._endpoints.copies)
            for copy in self._copies:
                copy.start()
            for copy in self._copies:
                await copy.listed.wait()
            self._controller.start()
            if self._settings.gateways:
                self._followers = self._follow_gateways()
                await _first_end(self._followers.tasks)
            else:
                await asyncio.Event().wait()
        finally:
            if self._followers is not None:
                await self._followers.aclose()
            await self._controller.aclose()
            await self._objects.aclose()
            for copy in self._copies:
                await copy.aclose()

    def _follow_gateways(self) -> GatewayFollowers:
        followers = GatewayFollowers(
            self._server,
            self._settings.gateways,
            self._endpoints,
            self._deletions,
            self._clock,
        )
        followers.start()
        return followers

    async def _prepared(self) -> None:
        while True:
            try:
                await self._endpoints.prepare()
            except ClusterError as error:
                log.warning(
                    LogLine("the API server cannot be asked; trying again", reason=str(error))
                )
                await pause(self._clock, RETRY_INTERVAL)
            else:
                return


async def _first_end(tasks: Iterable[asyncio.Task[None]]) -> None:
    ended, _ = await asyncio.wait(tasks, return_when=FIRST_COMPLETED)
    for each in ended:
        each.result()
        raise RuntimeError(f"the task {each.get_name()} has ended")
