"""EndpointBackend: runs the endpoints that objects ask for, and tells how they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from partway.gateway.apis.kubernetes.conditions import Readiness
from partway.gateway.apis.kubernetes.custom_object import CustomObject
from partway.gateway.apis.kubernetes.deployment_from_spec import WantedEndpoint


class EndpointBackend(Protocol):
    """The platform below the controller.

    There are two: the gateway's own control plane (:mod:`partway.gateway.apis.kubernetes.
    embedded_endpoints`), and a cluster (:mod:`partway.gateway.operator.cluster_endpoints`).

    Attributes:
        on_change: called with the name of an endpoint whose state has changed.
        on_other_settings: called when something that failed may succeed now.
    """

    on_change: Callable[[str], object]
    on_other_settings: Callable[[], object]

    def start(self) -> None:
        """Call :attr:`on_change` and :attr:`on_other_settings` from now on."""

    def names(self) -> Iterable[str]:
        """Return the endpoints that were made for objects, which may be gone by now."""

    async def have(self, name: str, wanted: WantedEndpoint | None) -> None:
        """Begin what changes an endpoint to its wanted state; None to have no endpoint.

        The call is repeated after each change, until nothing is left to begin.

        Raises:
            ValidationException: the wanted state is not allowed.
            ApiError: the change cannot begin now; a later try may succeed.
        """

    def endpoint_readiness(self, wanted: WantedEndpoint, trouble: str) -> Readiness:
        """Return the readiness of an Endpoint.

        Args:
            trouble: why :meth:`have` has failed; empty otherwise.
        """

    def model_readiness(
        self, model: CustomObject, wanted: WantedEndpoint | None, trouble: str
    ) -> Readiness:
        """Return the readiness of a DeployedModel; ``wanted`` is None if it has no Endpoint."""

    def is_gone(self, name: str) -> bool:
        """Whether nothing is left of an endpoint, so that its deleted object may go."""

    async def let_go(self, model: CustomObject) -> bool:
        """Remove the rest of a deleted DeployedModel; return whether nothing is left.

        Raises:
            ApiError: the rest cannot be removed now.
        """
