"""The API's operations on endpoints: CreateEndpoint and its neighbours (clause 5)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from partway.gateway.access.authentication import Identity
from partway.gateway.arns import Arns
from partway.gateway.control.endpoint_answers import described, described_of_settings
from partway.gateway.control.endpoint_keeper import EndpointKeeper
from partway.gateway.control.endpoint_records import CHANGING, EndpointRecord
from partway.gateway.control.errors import ValidationException
from partway.gateway.control.json_rpc import Answer, ControlOperation
from partway.gateway.control.planned import Members, Plan
from partway.gateway.control.resources import Resource, Resources
from partway.gateway.fleet.routing import Router
from partway.gateway.fleet.status import EndpointState

_KIND: Final = "endpoint"

#: What of a variant an update may retain, and where a plan has it.
_RETAINED: Final = {"DesiredInstanceCount": "instances", "DesiredWeight": "weights"}


class EndpointOperations:
    """The operations on endpoints.

    Args:
        resources: models, configurations and endpoints.
        keeper: has the fleet run what these say.
        router: knows which instances take streams and requests.
        arns: makes their ARNs.
        wall_clock: returns epoch seconds.
    """

    def __init__(
        self,
        resources: Resources,
        keeper: EndpointKeeper,
        router: Router,
        arns: Arns,
        wall_clock: Callable[[], float],
    ) -> None:
        self._resources = resources
        self._keeper = keeper
        self._router = router
        self._arns = arns
        self._wall_clock = wall_clock
        self._began = wall_clock()
        self._changes: set[asyncio.Task[None]] = set()

    @property
    def operations(self) -> Mapping[str, ControlOperation]:
        """The operations, by AWS's names of them."""
        return {
            "CreateEndpoint": self.create,
            "DescribeEndpoint": self.describe,
            "UpdateEndpoint": self.update,
            "UpdateEndpointWeightsAndCapacities": self.update_weights_and_capacities,
            "DeleteEndpoint": self.delete,
        }

    async def aclose(self) -> None:
        """Wait for changes whose callers have left."""
        if self._changes:
            await asyncio.wait(self._changes)

    # --- Asking ----------------------------------------------------------------------------------

    async def describe(self, members: Members, identity: Identity, _: str) -> Answer:
        """How an endpoint is."""
        name = members["EndpointName"]
        arn = self._arns.of(_KIND, name)
        identity.check("sagemaker:DescribeEndpoint", arn)
        own = self._keeper.of_settings.get(name.lower())
        status = None if own is None else self._keeper.status(own)
        if status is not None:
            return described_of_settings(status, arn, self._began)
        resource = self._found(name)
        return described(
            resource,
            self._keeper.record_of(resource),
            self._keeper.state_of(resource),
            self._router.table.get(resource.name, ()),
            arn,
        )

    # --- Changing --------------------------------------------------------------------------------

    async def create(self, members: Members, identity: Identity, _: str) -> Answer:
        """Create an endpoint by a configuration."""
        name = members["EndpointName"]
        arn = self._arns.of(_KIND, name)
        identity.check("sagemaker:CreateEndpoint", arn)
        self._check_config_allowed(identity, "sagemaker:CreateEndpoint", members)
        await self._whole(self._create(name, arn, members))
        return {"EndpointArn": arn}

    async def _create(self, name: str, arn: str, members: Members) -> None:
        async with self._resources.changing():
            is_there = self._resources.find(_KIND, name) is not None
            if is_there or name.lower() in self._keeper.of_settings:
                raise ValidationException(f'Cannot create already existing endpoint "{arn}".')
            plan = self._plan_of(members)
            endpoint = await self._keeper.endpoint_of(name, plan)
            now = self._wall_clock()
            tags = {each["Key"]: each["Value"] for each in members.get("Tags", ())}
            resource = Resource(_KIND, name, now, now, {"EndpointName": name}, tags)
            record = EndpointRecord(EndpointState.CREATING, None, plan, "", now)
            await self._keeper.begin(resource, record, endpoint, anew=False)

    async def update(self, members: Members, identity: Identity, _: str) -> Answer:
        """Have an endpoint be what another configuration says."""
        name = members["EndpointName"]
        arn = self._arns.of(_KIND, name)
        identity.check("sagemaker:UpdateEndpoint", arn)
        self._check_config_allowed(identity, "sagemaker:UpdateEndpoint", members)
        await self._whole(self._update(name, members))
        return {"EndpointArn": arn}

    async def _update(self, name: str, members: Members) -> None:
        async with self._resources.changing():
            resource = self._changeable(name)
            plan = self._plan_of(members)
            if members.get("RetainAllVariantProperties"):
                excluded = members.get("ExcludeRetainedVariantProperties", ())
                before = self._keeper.record_of(resource).plan
                but = {each["VariantPropertyType"] for each in excluded}
                plan = _retaining(plan, before, but)
            await self._change(resource, plan, anew=True)

    async def update_weights_and_capacities(
        self, members: Members, identity: Identity, _: str
    ) -> Answer:
        """Have other numbers of instances, or other weights."""
        name = members["EndpointName"]
        arn = self._arns.of(_KIND, name)
        identity.check("sagemaker:UpdateEndpointWeightsAndCapacities", arn)
        await self._whole(self._weigh(name, arn, members["DesiredWeightsAndCapacities"]))
        return {"EndpointArn": arn}

    async def _weigh(self, name: str, arn: str, desired: list[Members]) -> None:
        async with self._resources.changing():
            resource = self._changeable(name)
            plan = self._keeper.record_of(resource).plan
            instances, weights = dict(plan.instances), dict(plan.weights)
            for each in desired:
                variant = each["VariantName"]
                if variant not in plan.variant_names:
                    known = ", ".join(plan.variant_names)
                    raise ValidationException(
                        f'Could not find variant "{variant}" of endpoint "{arn}"; it has: {known}.'
                    )
                if "DesiredInstanceCount" in each:
                    instances[variant] = each["DesiredInstanceCount"]
                if "DesiredWeight" in each:
                    weights[variant] = each["DesiredWeight"]
            plan = dataclasses.replace(plan, instances=instances, weights=weights)
            await self._change(resource, plan, anew=False)

    async def _change(self, resource: Resource, plan: Plan, *, anew: bool) -> None:
        endpoint = await self._keeper.endpoint_of(resource.name, plan)
        record = self._keeper.record_of(resource).changing_to(plan, self._wall_clock())
        await self._keeper.begin(resource, record, endpoint, anew=anew)

    async def delete(self, members: Members, identity: Identity, _: str) -> Answer:
        """Delete an endpoint: it drains and stops, and is gone then."""
        name = members["EndpointName"]
        identity.check("sagemaker:DeleteEndpoint", self._arns.of(_KIND, name))
        await self._whole(self._delete(name))
        return None

    async def _delete(self, name: str) -> None:
        async with self._resources.changing():
            resource = self._own(name)
            # AWS deletes nothing in the midst of a change, and says so in these words. One that is
            # only coming up again, behind a restart of the gateway's, is in the midst of none.
            if self._keeper.record_of(resource).state in CHANGING | {EndpointState.DELETING}:
                raise self._in_progress(name)
            await self._keeper.end(resource)

    # --- What there is ---------------------------------------------------------------------------

    def _found(self, name: str) -> Resource:
        resource = self._keeper.find(name)
        if resource is None:
            raise ValidationException(f'Could not find endpoint "{self._arns.of(_KIND, name)}".')
        return resource

    def _own(self, name: str) -> Resource:
        """An endpoint that is the API's to change."""
        self._keeper.check_takes_changes()
        if name.lower() in self._keeper.of_settings:
            raise ValidationException(
                f'Cannot change endpoint "{self._arns.of(_KIND, name)}": it is of the gateway\'s '
                "settings, where it must be changed."
            )
        return self._found(name)

    def _changeable(self, name: str) -> Resource:
        """An endpoint that can be updated now."""
        resource = self._own(name)
        state, _ = self._keeper.state_of(resource)
        if state is EndpointState.FAILED:
            arn = self._arns.of(_KIND, name)
            raise ValidationException(f'Cannot update failed endpoint "{arn}".')
        if state is not EndpointState.IN_SERVICE:
            raise self._in_progress(name)
        return resource

    def _in_progress(self, name: str) -> ValidationException:
        arn = self._arns.of(_KIND, name)
        return ValidationException(f'Cannot update in-progress endpoint "{arn}".')

    def _check_config_allowed(self, identity: Identity, action: str, members: Members) -> None:
        identity.check(action, self._arns.of("endpoint-config", members["EndpointConfigName"]))

    def _plan_of(self, members: Members) -> Plan:
        """Copies of a configuration and of its models, with how it is to be deployed."""
        self._keeper.check_takes_changes()
        name = members["EndpointConfigName"]
        config = self._resources.find("endpoint-config", name)
        if config is None:
            arn = self._arns.of("endpoint-config", name)
            raise ValidationException(f'Could not find endpoint configuration "{arn}".')
        models = {}
        for variant in config.members["ProductionVariants"]:
            model = self._resources.find("model", variant["ModelName"])
            if model is None:
                arn = self._arns.of("model", variant["ModelName"])
                raise ValidationException(f'Could not find model "{arn}".')
            models[variant["ModelName"]] = model.members
        return Plan(config.members, models, deployment=members.get("DeploymentConfig", {}))

    async def _whole(self, change: Coroutine[Any, Any, None]) -> None:
        """Make a change to its end, also where its caller leaves: half of one would be no one's."""
        task = asyncio.create_task(change, name="change of an endpoint")
        self._changes.add(task)
        task.add_done_callback(self._over)
        await asyncio.shield(task)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._changes.discard(task)
        if not task.cancelled():
            task.exception()  # its caller has it, if there still is one


def _retaining(plan: Plan, before: Plan, but: set[str]) -> Plan:
    """A plan with the weights and numbers of instances that its variants have had.

    Args:
        plan: what is to be.
        before: what has been.
        but: properties that the new configuration decides.
    """
    kept: dict[str, dict[str, Any]] = {"instances": {}, "weights": {}}
    for variant in before.variants:
        name = variant["VariantName"]
        if name in plan.variant_names:
            kept["instances"][name] = before.instances_of(variant)
            kept["weights"][name] = before.weight_of(variant)
    changes = {where: kept[where] for what, where in _RETAINED.items() if what not in but}
    return dataclasses.replace(plan, **changes)
