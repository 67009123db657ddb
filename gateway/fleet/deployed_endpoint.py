"""The interface of an endpoint's deployment to the fleet."""

from __future__ import annotations

from typing import Protocol

from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.routing.router import RoutedVariant
from partway.gateway.fleet.status import EndpointState, EndpointStatus


class DeployedEndpoint(Protocol):
    """One endpoint that runs: its instances are launched, attached or discovered.

    Attributes:
        endpoint: the endpoint as it was last asked for.
        reason: why it, or its last change, has failed; empty otherwise.
        is_ending: whether it is being deleted, or stops with the gateway.
    """

    endpoint: Endpoint
    state: EndpointState
    reason: str
    is_ending: bool

    @property
    def containers(self) -> int:
        """How many launched containers it has or will have."""

    def further_containers(self, endpoint: Endpoint, *, anew: bool) -> int:
        """Return how many more containers :meth:`change` launches."""

    def routed(self) -> tuple[RoutedVariant, ...]:
        """Return its instances that take streams."""

    def status(self) -> EndpointStatus:
        """Return its status as a value."""

    def change(self, endpoint: Endpoint, *, anew: bool = False) -> None:
        """Change it; return at once."""

    def restart(self) -> None:
        """Replace all launched instances by new ones; return at once."""

    def delete(self) -> None:
        """Refuse new work and drain; return at once."""

    def stop(self) -> None:
        """Stop as for :meth:`delete`, but keep the endpoint: the gateway is stopping."""

    def hasten(self) -> None:
        """Cut what still drains."""

    async def settled(self) -> None:
        """Return once it has come up, has failed to, or ends."""

    async def gone(self) -> None:
        """Return once nothing is left of it, after :meth:`delete` or :meth:`stop`."""
