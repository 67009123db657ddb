"""The API's operations on endpoints: CreateEndpoint and its neighbours (clause 5)."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.aws_json.protocol import Answer, ControlOperation
from partway.gateway.apis.control.async_rules import check_names_no_containers
from partway.gateway.apis.control.catalogue import Catalogue
from partway.gateway.apis.control.endpoint_descriptions import (
    described,
    described_of_settings,
    with_slow_starts,
)
from partway.gateway.apis.control.endpoint_plans import DeploymentPlan, Members
from partway.gateway.apis.control.endpoint_reconciler import EndpointKeeper
from partway.gateway.apis.control.endpoint_records import CHANGING, EndpointRecord
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.listing import Listed, page_of
from partway.gateway.apis.control.model_data_permission import ModelDataLeave
from partway.gateway.apis.control.operator_models import is_of_operator
from partway.gateway.apis.control.resources import Kind, Resource, Resources, maker_of
from partway.gateway.apis.control.tags import new_tags
from partway.gateway.fleet.status import EndpointState

_KIND: Final[Kind] = "endpoint"

#: Reason for callers when an operator's deployment is not in service.
_FOR_OPERATOR: Final = (
    "The gateway's operator deployed this endpoint, and its instances cannot start; the "
    "gateway's log says why."
)
_SLOW_FOR_OPERATOR: Final = (
    "The gateway's operator deployed this endpoint, and an instance of it is not ready yet; "
    "the gateway's log says why."
)

#: Properties of a variant that an update may retain, and their fields in a plan.
_RETAINED: Final = {"DesiredInstanceCount": "instances", "DesiredWeight": "weights"}


class EndpointOperations:
    """The operations on endpoints.

    Args:
        wall_clock: returns epoch seconds.
    """

    def __init__(
        self,
        resources: Resources,
        catalogue: Catalogue,
        keeper: EndpointKeeper,
        leave: ModelDataLeave,
        wall_clock: Callable[[], float],
    ) -> None:
        self._resources = resources
        self._catalogue = catalogue
        self._keeper = keeper
        self._leave = leave
        self._wall_clock = wall_clock
        self._began = self._now()

    @property
    def operations(self) -> Mapping[str, ControlOperation]:
        return {
            "CreateEndpoint": self.create,
            "DescribeEndpoint": self.describe,
            "ListEndpoints": self.list,
            "UpdateEndpoint": self.update,
            "UpdateEndpointWeightsAndCapacities": self.update_weights_and_capacities,
            "DeleteEndpoint": self.delete,
        }

    @property
    def operations_of_operator(self) -> Mapping[str, ControlOperation]:
        """The variants of operations that allow the gateway's operator more, by the same names."""
        return {
            "DescribeEndpoint": self.describe_to_operator,
            "DeleteEndpoint": self.delete_whatever_comes,
        }

    # --- Reading ---------------------------------------------------------------------------------

    async def describe(self, members: Members, identity: Identity, _: str) -> Answer:
        """Describe an endpoint; the reasons of the operator's endpoints are replaced."""
        answer = self._describe(members, identity)
        if not self._is_of_operator(answer["EndpointName"]):
            return self._with_slow_starts(answer)
        if "FailureReason" in answer:
            answer["FailureReason"] = _FOR_OPERATOR
        return self._with_slow_starts(answer, _SLOW_FOR_OPERATOR)

    async def describe_to_operator(
        self, members: Members, identity: Identity, _: str
    ) -> dict[str, Any]:
        return self._with_slow_starts(self._describe(members, identity))

    def _describe(self, members: Members, identity: Identity) -> dict[str, Any]:
        name = members["EndpointName"]
        self._catalogue.allowed(identity, "DescribeEndpoint", _KIND, name)
        own = self._keeper.of_settings.get(name.lower())
        answer = None if own is None else self._described_of_settings(own)
        return answer or self._described(self._catalogue.existing(_KIND, name))

    def _with_slow_starts(self, answer: dict[str, Any], instead: str = "") -> dict[str, Any]:
        status = self._keeper.status(answer["EndpointName"])
        return with_slow_starts(answer, status, self._wall_clock(), instead)

    def _is_of_operator(self, name: str) -> bool:
        """Whether an endpoint is of the settings, or runs a model of ``partway deploy``."""
        if name.lower() in self._keeper.of_settings:
            return True
        found = self._keeper.find(name)
        return found is not None and self._keeper.record_of(found).is_reason_operators

    def _described(self, resource: Resource) -> dict[str, Any]:
        return described(
            resource,
            self._keeper.record_of(resource),
            self._keeper.state_of(resource),
            self._keeper.status(resource.name),
            self._catalogue.arn(_KIND, resource.name),
        )

    def _described_of_settings(self, name: str) -> dict[str, Any] | None:
        """Return the description of a settings' endpoint; None if the fleet does not run it yet."""
        status = self._keeper.status(name)
        if status is None:
            return None
        return described_of_settings(status, self._catalogue.arn(_KIND, name), self._began)

    async def list(self, members: Members, identity: Identity, _: str) -> Answer:
        """List the endpoints, including those of the settings."""
        identity.check("sagemaker:ListEndpoints", "*")
        return page_of("ListEndpoints", "Endpoints", self._listed(), members)

    def _listed(self) -> Iterator[Listed]:
        for resource in self._keeper.all():
            state, _ = self._keeper.state_of(resource)
            times = resource.created, resource.modified
            yield self._listed_as(resource.name, *times, state.service_word)
        for name in self._keeper.of_settings.values():
            status = self._keeper.status(name)
            if status is not None:
                modified = max(self._began, status.since)
                yield self._listed_as(name, self._began, modified, status.state.service_word)

    def _listed_as(self, name: str, created: float, modified: float, status: str) -> Listed:
        summary = {
            "EndpointName": name,
            "EndpointArn": self._catalogue.arn(_KIND, name),
            "CreationTime": created,
            "LastModifiedTime": modified,
            "EndpointStatus": status,
        }
        return Listed(name, created, modified, summary, status)

    # --- Changing --------------------------------------------------------------------------------

    async def create(self, members: Members, identity: Identity, _: str) -> Answer:
        name = members["EndpointName"]
        arn = self._allowed(identity, "CreateEndpoint", members)
        tags = new_tags(members, identity, arn)
        self._check_can_be_made(name)
        plan = self._plan_of(members, identity)
        # This may look at a file system that does not answer; no other change waits for it.
        endpoint = await self._keeper.planning.endpoint_of(name, plan)
        self._leave.check_endpoint(endpoint)
        async with self._changing():
            self._check_can_be_made(name)
            self._keeper.room.check_endpoint(endpoint, anew=False)
            now = self._now()
            resource = Resource(_KIND, name, now, now, {"EndpointName": name}, tags)
            record = EndpointRecord(EndpointState.CREATING, None, plan, "", now)
            await self._keeper.begin(resource, record, endpoint, anew=False)
        return {"EndpointArn": arn}

    async def update(self, members: Members, identity: Identity, _: str) -> Answer:
        arn = self._allowed(identity, "UpdateEndpoint", members)
        excluded = members.get("ExcludeRetainedVariantProperties", ())
        but = {each["VariantPropertyType"] for each in excluded}

        def change(before: DeploymentPlan) -> DeploymentPlan:
            plan = self._plan_of(members, identity)
            retains = members.get("RetainAllVariantProperties")
            return _retaining(plan, before, but) if retains else plan

        await self._change(members["EndpointName"], change, anew=True)
        return {"EndpointArn": arn}

    async def update_weights_and_capacities(
        self, members: Members, identity: Identity, _: str
    ) -> Answer:
        name, action = members["EndpointName"], "UpdateEndpointWeightsAndCapacities"
        arn = self._catalogue.allowed(identity, action, _KIND, name)
        desired = members["DesiredWeightsAndCapacities"]
        await self._change(name, lambda before: _weighed(before, desired, arn), anew=False)
        return {"EndpointArn": arn}

    async def _change(
        self, name: str, change: Callable[[DeploymentPlan], DeploymentPlan], *, anew: bool
    ) -> None:
        """Change an endpoint's plan.

        Args:
            anew: whether all instances must be new ones.
        """
        resource = self._changeable(name)
        plan = change(self._keeper.record_of(resource).plan)
        endpoint = await self._keeper.planning.endpoint_of(
            resource.name, plan
        )  # no other change waits for this
        if anew:  # otherwise instances keep their model data
            self._leave.check_endpoint(endpoint)
        async with self._changing():
            resource = self._changeable(name)
            record = self._keeper.record_of(resource)
            if change(record.plan) != plan:  # another change was begun and finished meanwhile
                raise self._in_progress(name)
            self._keeper.room.check_endpoint(endpoint, anew=anew)
            changed = record.changing_to(plan, self._now())
            await self._keeper.begin(resource, changed, endpoint, anew=anew)

    async def delete(self, members: Members, identity: Identity, _: str) -> Answer:
        """Delete an endpoint: it drains and stops, and is gone then."""
        name = members["EndpointName"]
        self._catalogue.allowed(identity, "DeleteEndpoint", _KIND, name)
        async with self._changing():
            resource = self._own(name)
            # AWS deletes no endpoint during a change, and says so in these words. An endpoint that
            # only starts again after the gateway's restart is not in a change.
            if self._keeper.record_of(resource).state in CHANGING | {EndpointState.DELETING}:
                raise self._in_progress(name)
            await self._keeper.end(resource)
        return None

    async def delete_whatever_comes(self, members: Members, identity: Identity, _: str) -> Answer:
        """Delete an endpoint, even during a change; a running deletion continues."""
        name = members["EndpointName"]
        self._catalogue.allowed(identity, "DeleteEndpoint", _KIND, name)
        async with self._changing():
            resource = self._own(name)
            if self._keeper.record_of(resource).state is not EndpointState.DELETING:
                await self._keeper.end(resource)
        return None

    # --- Lookups ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[None]:
        """Keep other changes out until the block of ``async with`` ends.

        Raises:
            FleetStopping: the gateway stops.
            NotWrittenDown: the change cannot be stored; nothing is changed.
        """
        async with self._catalogue.changing():
            self._keeper.check_takes_changes()
            yield

    def _now(self) -> float:
        return round(self._wall_clock(), 3)  # AWS's times are milliseconds too

    def _check_can_be_made(self, name: str) -> None:
        is_taken = name.lower() in self._keeper.of_settings
        self._catalogue.check_can_be_made(_KIND, name, is_taken=is_taken)

    def _own(self, name: str) -> Resource:
        if name.lower() in self._keeper.of_settings:
            raise ValidationException(
                f'Cannot change endpoint "{self._catalogue.arn(_KIND, name)}": the '
                "gateway's settings define it, and it must be changed there."
            )
        return self._catalogue.existing(_KIND, name)

    def _changeable(self, name: str) -> Resource:
        resource = self._own(name)
        if self._keeper.may_be_updated(resource):
            return resource
        if self._keeper.state_of(resource)[0] is EndpointState.FAILED:
            arn = self._catalogue.arn(_KIND, name)
            raise ValidationException(f'Cannot update failed endpoint "{arn}".')
        raise self._in_progress(name)

    def _in_progress(self, name: str) -> ValidationException:
        arn = self._catalogue.arn(_KIND, name)
        return ValidationException(f'Cannot update in-progress endpoint "{arn}".')

    def _allowed(self, identity: Identity, action: str, members: Members) -> str:
        """Return an endpoint's ARN, if the caller may use endpoint and configuration."""
        arn = self._catalogue.allowed(identity, action, _KIND, members["EndpointName"])
        config = members["EndpointConfigName"]
        self._catalogue.allowed(identity, action, "endpoint-config", config)
        return arn

    def _plan_of(self, members: Members, identity: Identity) -> DeploymentPlan:
        """Return the plan of a request: copies of a configuration and its models.

        Permissions on the models are checked again: a model of the same name may be another by now.
        """
        kept_config = self._catalogue.existing("endpoint-config", members["EndpointConfigName"])
        config = kept_config.members
        names = [variant["ModelName"] for variant in config["ProductionVariants"]]
        found = {name: self._catalogue.existing_model(identity, name) for name in names}
        plan = DeploymentPlan(
            config,
            {name: model.members for name, model in found.items()},
            deployment=members.get("DeploymentConfig", {}),
            of_operator={
                name: model.kept for name, model in found.items() if is_of_operator(model.kept)
            },
            makers={name: maker_of(model.kept) for name, model in found.items()},
            config_maker=maker_of(kept_config.kept),
        )
        check_names_no_containers(plan)
        return plan


def _retaining(plan: DeploymentPlan, before: DeploymentPlan, but: set[str]) -> DeploymentPlan:
    """Return a plan with the earlier weights and numbers of instances of its variants.

    Args:
        but: the properties that the new configuration decides.
    """
    kept: dict[str, dict[str, Any]] = {"instances": {}, "weights": {}}
    for variant in before.variants:
        name = variant["VariantName"]
        if name in plan.variant_names:
            kept["instances"][name] = before.instances_of(variant)
            kept["weights"][name] = before.weight_of(variant)
    changes: dict[str, Any] = {
        where: kept[where] for what, where in _RETAINED.items() if what not in but
    }
    return dataclasses.replace(plan, **changes)


def _weighed(before: DeploymentPlan, desired: list[Members], arn: str) -> DeploymentPlan:
    """Return a plan with other numbers or weights; raise ValidationException for other variants."""
    instances, weights = dict(before.instances), dict(before.weights)
    for each in desired:
        variant = each["VariantName"]
        if variant not in before.variant_names:
            known = ", ".join(before.variant_names)
            raise ValidationException(
                f'Could not find variant "{variant}" of endpoint "{arn}"; it has: {known}.'
            )
        if "DesiredInstanceCount" in each:
            instances[variant] = each["DesiredInstanceCount"]
        if "DesiredWeight" in each:
            weights[variant] = each["DesiredWeight"]
    return dataclasses.replace(before, instances=instances, weights=weights)
