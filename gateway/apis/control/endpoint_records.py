"""What is written down of an endpoint of the API: what serves, what is to, and how far that is."""

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

#: States of a fleet's endpoint that has done with its last change.
SETTLED: Final = frozenset({EndpointState.IN_SERVICE, EndpointState.FAILED})


@dataclass(frozen=True, slots=True)
class EndpointRecord:
    """How far an endpoint has come.

    Attributes:
        state: of its last change; ``Failed`` where it never came into service.
        serving: what it serves by; None as long as it has never come into service.
        coming: what it is to serve by next, or what has failed to come into service; else None.
        reason: why its last change has failed; empty otherwise.
        began: when its last change did, in epoch seconds.
        of_operator: whether a change that was given up was to something of the operator's.
    """

    state: EndpointState
    serving: DeploymentPlan | None
    coming: DeploymentPlan | None
    reason: str
    began: float
    of_operator: bool = False

    @classmethod
    def of(cls, resource: Resource) -> EndpointRecord:
        """What a resource keeps."""
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
        """What is in force; of an endpoint that has never been in service, what was to be."""
        plan = self.serving or self.coming
        assert plan is not None, "it was created by one"
        return plan

    @property
    def is_reason_operators(self) -> bool:
        """Whether the reason may have words that are for the gateway's operator alone.

        It says what the operator's command is, where it is looked for, and what it has said.
        """
        plans = (self.serving, self.coming)
        return self.of_operator or any(each is not None and each.of_operator for each in plans)

    def changing_to(self, plan: DeploymentPlan, now: float) -> EndpointRecord:
        """The record when an update to something else begins."""
        return EndpointRecord(EndpointState.UPDATING, self.serving, plan, "", now)

    def settled(self, status: EndpointStatus) -> EndpointRecord:
        """The record when the fleet has done with a change, or given it up.

        Args:
            status: the fleet's.
        """
        if status.is_latest:
            state = EndpointState.IN_SERVICE
            return EndpointRecord(state, self.coming, None, status.reason, self.began)
        if self.serving is None:
            return dataclasses.replace(self, state=EndpointState.FAILED, reason=status.reason)
        return self.rolled_back(status.reason)

    def rolled_back(self, reason: str) -> EndpointRecord:
        """The record when an update has failed: what was before serves on."""
        return EndpointRecord(
            *(EndpointState.IN_SERVICE, self.serving, None, reason, self.began),
            of_operator=self.is_reason_operators,
        )

    def in_place_of(self, resource: Resource, now: float) -> Resource:
        """The resource with this record in the place of the one it has.

        Args:
            resource: the endpoint as it was.
            now: when it becomes so, in epoch seconds.
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
