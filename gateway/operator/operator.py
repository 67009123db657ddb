"""Operator: leads or waits, and keeps a namespace while it leads."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Collection
from typing import Final

from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.cluster_settings import ClusterSettings
from partway.gateway.cluster.leases import Leadership
from partway.gateway.cluster.watched_collection import WatchedCollection
from partway.gateway.operator.kept_namespace import KeptNamespace, PodSettings
from partway.gateway.operator.recent_deletions import RecentDeletions
from partway.gateway.timing.clock import Clock

#: The name of the Lease, one in each namespace.
LEASE: Final = "partway-operator"


class Operator:
    """One of several operators of a namespace, of which one acts.

    Args:
        wall_clock: returns epoch seconds.
    """

    def __init__(
        self,
        cluster: ClusterSettings,
        settings: PodSettings,
        clock: Clock,
        wall_clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._wall_clock = wall_clock
        self._kept: KeptNamespace | None = None
        self._deletions = RecentDeletions(clock)
        # The lease has connections of its own: no other request delays a renewal.
        self._lease_server = ApiServer(cluster, clock)
        identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
        self.leadership = Leadership(self._lease_server, LEASE, identity, clock, wall_clock)
        self._server = ApiServer(cluster, clock, self.leadership.check_write)

    @property
    def copies(self) -> Collection[WatchedCollection]:
        """The collections that are followed; none while another operator leads."""
        return () if self._kept is None else self._kept.copies

    @property
    def lack(self) -> str:
        """Why the operator can neither act nor stand in for the one that does; empty if it can."""
        if not self.leadership.is_known:
            return "the lease has not been read or made yet"
        if self.leadership.is_held and (self._kept is None or not self._kept.has_listed):
            return "the objects of the namespace have not been listed yet"
        return ""

    @property
    def silent_gateways(self) -> int:
        """How many gateways have not told their streams for a while."""
        return 0 if self._kept is None else self._kept.silent_gateways

    async def run(self) -> None:
        """Lead whenever no other one does, until cancelled.

        An error is a fault of the program: the process must end.
        """
        try:
            await self.leadership.lead(self._keep)
        finally:
            await self._server.aclose()
            await self._lease_server.aclose()

    async def _keep(self) -> None:
        if self.leadership.follows_another:
            self._deletions.follow_another()
        self._kept = KeptNamespace(
            self._server, self._settings, self._clock, self._wall_clock, self._deletions
        )
        try:
            await self._kept.run()
        finally:
            self._kept = None
