"""GatewayFollowers: the parts of an operator that act on what gateways tell."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.watched_collection import WatchedCollection
from partway.gateway.operator.busy_pods import BusyPods
from partway.gateway.operator.cluster_endpoints import ClusterEndpoints
from partway.gateway.operator.gateway_pages import GatewayPages
from partway.gateway.operator.gateway_pods import GatewayPods
from partway.gateway.operator.recent_deletions import RecentDeletions
from partway.gateway.operator.unreachable_pods import UnreachablePods
from partway.gateway.timing.clock import Clock


class GatewayFollowers:
    """Gateways report unreachable pods, and tell their open streams.

    Args:
        service: the Service of all gateways, NAME or NAMESPACE/NAME.
        endpoints: those whose pods gateways reach; prepared.
        deletions: of unreachable pods.
    """

    def __init__(
        self,
        server: ApiServer,
        service: str,
        endpoints: ClusterEndpoints,
        deletions: RecentDeletions,
        clock: Clock,
    ) -> None:
        pods = endpoints.pods
        self._gateways = GatewayPods(server, service, endpoints.slices_version, clock)
        self._unreachable = UnreachablePods(server, pods, self._gateways, deletions, clock)
        self._busy = BusyPods(server, pods, self._gateways, GatewayPages(clock), clock)
        endpoints.on_pod_change = self._unreachable.look
        self._gateways.on_change = self._unreachable.look

    @property
    def copies(self) -> tuple[WatchedCollection, ...]:
        """The collections that are followed."""
        return (self._gateways.slices, self._unreachable.reports.copy)

    @property
    def tasks(self) -> Iterable[asyncio.Task[None]]:
        """The work, which a fault alone ends before :meth:`aclose`."""
        return (self._unreachable.task, self._busy.task)

    @property
    def silent_gateways(self) -> int:
        """How many gateways have not told their streams for a while."""
        return len(self._busy.unknown)

    def start(self) -> None:
        """Act until :meth:`aclose`; call this once the pods are listed."""
        self._gateways.start()
        self._unreachable.start()
        self._busy.start()

    async def aclose(self) -> None:
        await self._busy.aclose()
        await self._unreachable.aclose()
        await self._gateways.aclose()
