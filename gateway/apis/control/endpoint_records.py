"""The record of an API endpoint: its serving and its next version, and its change's state."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from partway.gateway.apis.control.endpoint_plans import DeploymentPlan
from partway.gateway.apis.control.resources import Resource
from partway.gateway.fleet.status import EndpointState, EndpointStatus

#: States in which a change waits for instances.
CHANGING: Final = frozenset({EndpointState.CREATING, EndpointState.UPDATING})

#: States of a fleet's endpoint whose last change has ended.
SETTLED: Final = frozenset({EndpointState.IN_SERVICE, EndpointState.FAILED})


@dataclass(frozen=True, slots=True)
class EndpointRecord:
    """The recorded state of an endpoint.

    Attributes:
        state: the state of its last change; ``Failed`` if it has never been in service.
        serving: the plan that serves; None until it has been in service.
        coming: the plan that comes next, or that failed to come into service; otherwise None.
        reason: why the last change failed; empty otherwise.
        began: when the last change began, in epoch seconds.
        of_operator: whether an abandoned change belonged to the operator.
    """

    state: EndpointState
    serving: DeploymentPlan | None
    coming: DeploymentPlan | None
    reason: str
    began: float
    of_operator: bool = False

    @classmethod
    def of(cls, resource: Resource) -> EndpointRecord:
        kept = resource.kept
        return cls(
            EndpointState(kept["state"]),
            _plan_of(kept["serving"]),
            _plan_of(kept["coming"]),
            kept["reason"],
            kept["began"],
            kept.get("of_operator", False),
        )

    @property
    def plan(self) -> DeploymentPlan:
        """The plan that serves, or the next one if the endpoint has never been in service."""
        plan = self.serving or self.coming
        assert plan is not None, "it was created by one"
        return plan

    @property
    def is_reason_operators(self) -> bool:
        """Whether the reason may contain words that only the gateway's operator may see.

        Such a reason may contain the operator's command, its path and its output.
        """
        plans = (self.serving, self.coming)
        return self.of_operator or any(each is not None and each.of_operator for each in plans)

    def changing_to(self, plan: DeploymentPlan, now: float) -> EndpointRecord:
        return EndpointRecord(EndpointState.UPDATING, self.serving, plan, "", now)

    def settled(self, status: EndpointStatus) -> EndpointRecord:
        if status.is_latest:
            state = EndpointState.IN_SERVICE
            return EndpointRecord(state, self.coming, None, status.reason, self.began)
        if self.serving is None:
            return dataclasses.replace(self, state=EndpointState.FAILED, reason=status.reason)
        return self.rolled_back(status.reason)

    def rolled_back(self, reason: str) -> EndpointRecord:
        """Return the record after a failed update: the earlier plan keeps serving."""
        return EndpointRecord(
            *(EndpointState.IN_SERVICE, self.serving, None, reason, self.began),
            of_operator=self.is_reason_operators,
        )

    def in_place_of(self, resource: Resource, now: float) -> Resource:
        """Return the resource with this record.

        Args:
            resource: the endpoint before the change.
            now: the time of the change, in epoch seconds.
        """
        members = {**resource.members, "EndpointConfigName": self.plan.config_name}
        kept = {
            "state": str(self.state),
            "serving": _json_of(self.serving),
            "coming": _json_of(self.coming),
            "reason": self.reason,
            "began": self.began,
            "of_operator": self.of_operator,
        }
        return dataclasses.replace(resource, modified=now, members=members, kept=kept)


def _json_of(plan: DeploymentPlan | None) -> Mapping[str, Any] | None:
    if plan is None:
        return None
    return {field.name: getattr(plan, field.name) for field in dataclasses.fields(plan)}


def _plan_of(kept: Mapping[str, Any] | None) -> DeploymentPlan | None:
    return None if kept is None else DeploymentPlan(**kept)
