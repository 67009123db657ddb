"""All endpoints for the gateway's user, including endpoints that the fleet does not run."""

from __future__ import annotations

from partway.gateway.apis.control.endpoint_reconciler import EndpointKeeper
from partway.gateway.apis.control.resources import Resource
from partway.gateway.fleet.fleet import Fleet
from partway.gateway.fleet.status import EndpointStatus, VariantStatus
from partway.protocol.errors import InputValidationError


class KnownEndpoints:
    """All endpoints of a gateway.

    The fleet has no instances of an API endpoint that failed under an earlier gateway, or that
    cannot run now. Such an endpoint exists all the same, and the store has its state.
    """

    def __init__(self, fleet: Fleet, keeper: EndpointKeeper) -> None:
        self._fleet = fleet
        self._keeper = keeper

    def describe(self) -> tuple[EndpointStatus, ...]:
        """Return the status of all endpoints, sorted by name."""
        found = {each.name: each for each in self._fleet.describe()}
        for resource in self._keeper.all():
            if resource.name not in found:
                found[resource.name] = self._without_instances(resource)
        return tuple(found[name] for name in sorted(found))

    async def restart(self, name: str) -> None:
        """Replace an endpoint's instances by new ones; see :meth:`~.fleet.Fleet.restart`.

        Raises:
            InputValidationError: the fleet does not run the endpoint; the message says why.
        """
        resource = self._keeper.find(name)
        if resource is not None and self._fleet.status(name) is None:
            state, reason = self._keeper.state_of(resource)
            raise InputValidationError(
                f"the endpoint {name!r} is {state} and has no instances to restart"
                f"{reason and f' ({reason})'}; delete it, or deploy it again",
                "NotRestartable",
            )
        await self._fleet.restart(name)

    def _without_instances(self, resource: Resource) -> EndpointStatus:
        state, reason = self._keeper.state_of(resource)
        plan = self._keeper.record_of(resource).plan
        variants = (
            VariantStatus(
                each["VariantName"], plan.weight_of(each), plan.instances_of(each), 0, 0, "", ()
            )
            for each in plan.variants
        )
        return EndpointStatus(resource.name, state, reason, resource.modified, tuple(variants))
