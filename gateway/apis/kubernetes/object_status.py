"""The readiness of objects, from the wanted state, the fleet's state and refusals."""

from __future__ import annotations

from dataclasses import dataclass

from partway.gateway.apis.control.endpoint_plans import DeploymentPlan
from partway.gateway.apis.control.endpoint_reconciler import EndpointKeeper
from partway.gateway.apis.control.endpoint_records import CHANGING
from partway.gateway.apis.control.resources import Resource
from partway.gateway.apis.kubernetes.conditions import (
    ENDPOINT_MESSAGE,
    MODEL_READY,
    RESOURCE_NOT_READY,
    RESOURCE_READY,
    Readiness,
)
from partway.gateway.apis.kubernetes.deployment_from_spec import WantedEndpoint
from partway.gateway.fleet.routing.router import Router
from partway.gateway.fleet.status import EndpointState


@dataclass(frozen=True, slots=True)
class ObservedEndpoint:
    """The current state of an endpoint of the API.

    Attributes:
        serving: the plan that serves; None until the endpoint has been in service.
        coming: the plan that comes next, or that failed; otherwise None.
        reason: why the endpoint or its last change has failed; empty otherwise.
        instances: the numbers of instances that take streams and requests, by variant.
        troubles: why a variant has no instance, by variant.
        slow_start: why an instance that has been starting for seconds is not ready; empty if there
            is no such instance.
    """

    serving: DeploymentPlan | None
    coming: DeploymentPlan | None
    state: EndpointState
    reason: str
    instances: dict[str, int]
    troubles: dict[str, str]
    slow_start: str = ""

    @classmethod
    def of(cls, resource: Resource, keeper: EndpointKeeper, router: Router) -> ObservedEndpoint:
        record = keeper.record_of(resource)
        state, reason = keeper.state_of(resource)
        routed = router.variants(resource.name)
        return cls(
            record.serving,
            record.coming,
            state,
            reason,
            {each.name: len(each.instances) for each in routed},
            {each.name: each.trouble for each in routed if each.trouble},
            keeper.slow_start_reason(resource.name),
        )

    @property
    def plan(self) -> DeploymentPlan:
        plan = self.coming or self.serving
        assert plan is not None, "it was created by one"
        return plan

    def progress(self, begun: str) -> str:
        """Return the message of a running change, with the reason of a slow start."""
        return f"{begun}: {self.slow_start}" if self.slow_start else begun

    @property
    def is_changing(self) -> bool:
        return self.state in CHANGING

    def runs(self, model: str) -> bool:
        """Whether the endpoint has instances of a DeployedModel, or is to have."""
        return any(plan and model in plan.models for plan in (self.serving, self.coming))


def model_readiness(
    model: str, wanted: WantedEndpoint | None, seen: ObservedEndpoint | None, trouble: str
) -> Readiness:
    """Return the readiness of a DeployedModel at its endpoint.

    Args:
        wanted: the endpoint's wanted state; None if there is no Endpoint.
        seen: the endpoint's current state; None if there is no endpoint.
        trouble: why the wanted state cannot be reached; empty if it can.
    """
    if wanted is None:
        return Readiness(
            "NoEndpoint",
            "There is no Endpoint with the id in this model's endpointPath yet; apply one",
        )
    if not wanted.takes_traffic:
        return Readiness(
            "NoTraffic",
            f"No existing model of the endpoint {wanted.name} gets traffic, so the endpoint is "
            "not started",
        )
    if trouble:
        return Readiness("Refused", trouble)
    if seen is None:
        return Readiness("Pending", f"The endpoint {wanted.name} is about to be created")
    serving = seen.serving
    if serving is not None and serving.models.get(model) == wanted.models[model]:
        if seen.instances.get(model):
            return MODEL_READY
        return Readiness(
            "NotReady", seen.troubles.get(model) or seen.reason or "No instance is in service"
        )
    if seen.is_changing:
        return Readiness("Progressing", seen.progress("Its instances are being started"))
    return Readiness("Failed", seen.reason or "Its instances have not come into service")


def endpoint_readiness(
    wanted: WantedEndpoint, seen: ObservedEndpoint | None, trouble: str
) -> Readiness:
    """Return the readiness of an Endpoint.

    Args:
        seen: the current state; None if there is no endpoint.
        trouble: why the wanted state cannot be reached; empty if it can.
    """
    missing = ", ".join(wanted.missing)
    absent = (
        f"There is no DeployedModel {missing} with the endpointPath endpoints/{wanted.name}"
        if missing
        else ""
    )
    if not wanted.takes_traffic:
        said = absent or "No destination gets traffic"
        return Readiness("DestinationNotFound" if absent else RESOURCE_NOT_READY, said)
    if trouble:
        return Readiness("Refused", trouble)
    if seen is None:
        return Readiness("Progressing", "The endpoint is about to be created")
    if seen.state is EndpointState.IN_SERVICE and any(seen.instances.values()):
        behind = absent or seen.reason
        said = f"{ENDPOINT_MESSAGE}; {behind}" if behind else ENDPOINT_MESSAGE
        return Readiness(RESOURCE_READY, said, is_ready=True)
    if seen.state is EndpointState.UPDATING and any(seen.instances.values()):
        return Readiness(
            RESOURCE_READY,
            f"{ENDPOINT_MESSAGE}; new instances start beside those that serve",
            is_ready=True,
        )
    if seen.is_changing:
        return Readiness("Progressing", seen.progress("Instances are being started"))
    why = seen.reason or next(iter(seen.troubles.values()), "") or "No instance is in service"
    return Readiness("Failed" if seen.state is EndpointState.FAILED else RESOURCE_NOT_READY, why)
