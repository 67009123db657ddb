"""GatewayPods: the gateways that are alive, by the slices of their Service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from partway.gateway.cluster.answers import Collection
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.endpoint_slices import (
    KUBERNETES_SLICES,
    NO_PORT,
    SERVICE_LABEL,
    InstancesFound,
    ServiceInstance,
    find_instances,
)
from partway.gateway.cluster.watched_collection import WatchedCollection
from partway.gateway.timing.clock import Clock


def place_of(service: str, namespace: str) -> tuple[str, str]:
    """Return the namespace and the name of a Service, NAME or NAMESPACE/NAME.

    Args:
        namespace: of a Service that names none.
    """
    place, _, name = service.rpartition("/")
    return place or namespace, name


class GatewayPods:
    """Follows the slices of the Service of all gateways, as Kubernetes' own controller writes them.

    A slice of another writer names no gateway. While the API server is away, the last slices stay.

    Args:
        service: NAME or NAMESPACE/NAME; by default in the server's own namespace.
        slices: the API version of slices, such as ``discovery.k8s.io/v1``.

    Attributes:
        on_change: called after each change.
        service: as it was given.
        slices: those slices of that Service alone.
    """

    def __init__(
        self,
        server: ApiServer,
        service: str,
        slices: str,
        clock: Clock,
    ) -> None:
        self.on_change: Callable[[], object] = lambda: None
        self.service = service
        namespace, self._name = place_of(service, server.settings.namespace)
        self._is_local = server.settings.is_local
        labels = f"{SERVICE_LABEL}={self._name},{KUBERNETES_SLICES}"
        collection = Collection(slices, "endpointslices", namespace, labels)
        self.slices = WatchedCollection(server, collection, clock, lambda *_: self.on_change())

    def start(self) -> None:
        """Follow the slices until :meth:`aclose`."""
        self.slices.start()

    async def aclose(self) -> None:
        await self.slices.aclose()

    def ready(self, port: int | str | None = NO_PORT) -> Mapping[str, ServiceInstance]:
        """Return the ready gateways, by the names of their pods; empty until they are known.

        Args:
            port: of each gateway, by number or by name; None for the slices' only one. A slice
                without the port is left out. By default each gateway's port is :data:`NO_PORT`.
        """
        found = self.found(port).instances
        return MappingProxyType({each.name: each for each in found if each.takes_streams})

    def found(self, port: int | str | None = None) -> InstancesFound:
        """Return all gateways, those that start and those that drain too; the port is as above."""
        slices = self.slices.objects.values()
        if not slices:
            why = (
                f"Kubernetes has made no slice of the Service {self._name!r}; it must be there, "
                "and have a selector"
            )
            return InstancesFound(trouble=why)
        service = {"metadata": {"name": self._name}}
        return find_instances(service, slices, port, loopback=self._is_local)
