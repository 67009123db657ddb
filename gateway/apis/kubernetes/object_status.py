"""How objects are: what is wanted, beside what the fleet says and what has been refused."""

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
    """An endpoint of the API, as it is just now.

    Attributes:
        serving: what it serves by; None as long as it has never come into service.
        coming: what it is to serve by next, or what has failed; else None.
        state: how it is.
        reason: why it, or its last change, has failed; empty otherwise.
        instances: by the names of variants, how many take streams and requests.
        troubles: by the same names, why there are none.
        slow_start: why an instance that has been starting for seconds is not ready; empty if none
            is so.
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
        """What is known of an endpoint.

        Args:
            resource: the endpoint.
            keeper: says how it is.
            router: knows which of its instances take streams and requests.
        """
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
        """What it was last asked to be."""
        plan = self.coming or self.serving
        assert plan is not None, "it was created by one"
        return plan

    def progress(self, begun: str) -> str:
        """The message of a change under way, with the reason for which it takes long."""
        return f"{begun}: {self.slow_start}" if self.slow_start else begun

    @property
    def is_changing(self) -> bool:
        """Whether its last change is not over."""
        return self.state in CHANGING

    def runs(self, model: str) -> bool:
        """Whether it has instances of a DeployedModel, or is to have."""
        return any(plan and model in plan.models for plan in (self.serving, self.coming))


def model_readiness(
    model: str, wanted: WantedEndpoint | None, seen: ObservedEndpoint | None, trouble: str
) -> Readiness:
    """How a DeployedModel is at the endpoint that it is deployed to.

    Args:
        model: its name.
        wanted: what the endpoint is to be; None if no Endpoint says so.
        seen: the endpoint as it is; None if there is none.
        trouble: why the endpoint cannot be what is wanted; empty if it can.
    """
    if wanted is None:
        return Readiness("NoEndpoint", "No Endpoint sends it traffic yet: apply one with its id")
    if not wanted.takes_traffic:
        return Readiness(
            "NoTraffic",
            f"Nothing of the endpoint {wanted.name} that is there gets traffic, so it is not "
            "started",
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
    """How an Endpoint is.

    Args:
        wanted: what it is to be.
        seen: the endpoint as it is; None if there is none.
        trouble: why the endpoint cannot be what is wanted; empty if it can.
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
            f"{ENDPOINT_MESSAGE}; a change comes up beside what serves",
            is_ready=True,
        )
    if seen.is_changing:
        return Readiness("Progressing", seen.progress("Instances are being started"))
    why = seen.reason or next(iter(seen.troubles.values()), "") or "No instance is in service"
    return Readiness("Failed" if seen.state is EndpointState.FAILED else RESOURCE_NOT_READY, why)
