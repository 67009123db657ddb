"""The controller, which changes endpoints to match their objects and writes their state back."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.control.control_plane import ControlPlane
from partway.gateway.apis.control.endpoint_reconciler import EndpointKeeper
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.resources import Kind, Resources, kept_of_maker
from partway.gateway.apis.kubernetes.conditions import endpoint_status, model_status
from partway.gateway.apis.kubernetes.custom_object import DEPLOYED_MODEL, ENDPOINT, CustomObject
from partway.gateway.apis.kubernetes.deployment_from_spec import (
    WantedEndpoint,
    endpoint_of,
    wanted_endpoint,
)
from partway.gateway.apis.kubernetes.limits import ENDPOINTS_AT_ONCE, RETRY_INTERVAL
from partway.gateway.apis.kubernetes.object_status import (
    ObservedEndpoint,
    endpoint_readiness,
    model_readiness,
)
from partway.gateway.apis.kubernetes.objects import CustomObjects
from partway.gateway.apis.kubernetes.work_queue import WorkQueue
from partway.gateway.fleet.routing.router import Router
from partway.gateway.fleet.status import EndpointState
from partway.gateway.timing.clock import Clock
from partway.log_lines import LogLine
from partway.protocol.errors import ApiError

log = logging.getLogger("partway.kubernetes")

#: Marks the models and configurations that custom resources have made.
_MARK: Final = "custom_resource"

#: The caller in the control plane; permissions were checked when the object was changed.
_IDENTITY: Final = Identity("custom resources")

_MODEL: Final[Kind] = "model"
_CONFIG: Final[Kind] = "endpoint-config"


def rfc3339(seconds: float) -> str:
    """Return a time in Kubernetes' format: to the second, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class EndpointController:
    """Changes endpoints of the API to match objects, and writes their states to the objects.

    If the gateway is killed during a change, the next gateway continues: the wanted state is in the
    objects, and the actual state in the API's resources.

    Args:
        wall_clock: returns epoch seconds.
        domain: the suffix of each endpoint's domain name.
    """

    def __init__(
        self,
        objects: CustomObjects,
        plane: ControlPlane,
        resources: Resources,
        keeper: EndpointKeeper,
        router: Router,
        clock: Clock,
        wall_clock: Callable[[], float],
        domain: str,
    ) -> None:
        self._objects = objects
        self._plane = plane
        self._resources = resources
        self._keeper = keeper
        self._router = router
        self._wall_clock = wall_clock
        self._domain = domain
        self._queue = WorkQueue(self._work, ENDPOINTS_AT_ONCE, clock)
        self._troubles: dict[str, str] = {}
        #: The last request for each endpoint, so that a failed one is not repeated for ever.
        self._tried: dict[str, WantedEndpoint] = {}
        self._known: set[str] = set()

    def start(self) -> None:
        """Check all objects now, and each changed object from now on."""
        self._objects.on_change = self._object_changed
        self._keeper.on_change = self._endpoint_changed
        self._keeper.on_other_settings = self.look_at_all
        self.look_at_all()

    def look_at_all(self) -> None:
        """Check all endpoints again; new settings may allow what failed before."""
        self._tried.clear()
        for kind in (ENDPOINT, DEPLOYED_MODEL):
            for each in self._objects.all(kind):
                self._object_changed(each, each)
        for kept in (_MODEL, _CONFIG):
            for resource in self._resources.all(kept):
                if _MARK in resource.kept:
                    self._queue.add(resource.kept[_MARK])

    async def aclose(self) -> None:
        await self._queue.aclose()

    def owns(self, kind: Kind, name: str) -> bool:
        found = self._resources.find(kind, name)
        return found is not None and _MARK in found.kept

    def endpoint_object(self, name: str) -> CustomObject | None:
        """Return the Endpoint object for an endpoint; None without an object."""
        return next(iter(self._objects.of_endpoint(ENDPOINT, name)), None)

    # --- Notices of changes ----------------------------------------------------------------------

    def _object_changed(self, changed: CustomObject, before: CustomObject | None) -> None:
        if before is not None and before.status != changed.status:
            return  # a change of the status alone, which the controller itself has made
        for each in (changed, *([before] if before else [])):
            self._queue.add(endpoint_of(each))

    def _endpoint_changed(self, name: str) -> None:
        if name in self._known:
            self._queue.add(name)

    # --- One endpoint ----------------------------------------------------------------------------

    async def _work(self, name: str) -> None:
        """Change an endpoint to match its objects, and write its state to them."""
        owner = self.endpoint_object(name)
        wanted = None
        if owner is not None and not owner.deleting:
            wanted = wanted_endpoint(owner, self._objects.of_endpoint(DEPLOYED_MODEL, name))
        try:
            self._keeper.check_takes_changes()
            await self._plane.whole(self._have(name, wanted))
            self._troubles.pop(name, None)
        except ValidationException as error:
            self._troubles[name] = error.message
        except ApiError as error:
            self._troubles[name] = error.message
            log.warning(
                LogLine(
                    "a custom resource could not be applied; trying again",
                    endpoint=name,
                    reason=error.for_operator,
                )
            )
            self._queue.add_later(name, RETRY_INTERVAL)
        await self._note(name, owner, wanted)

    async def _have(self, name: str, wanted: WantedEndpoint | None) -> None:
        seen = self._seen(name)
        if wanted is None or not wanted.takes_traffic:
            await self._have_none(name, seen)
            return
        self._known.add(name)
        if name in self._keeper.of_settings:
            raise ValidationException(
                f"The gateway's settings define the endpoint {name}; change it there"
            )
        if seen is not None and not self.owns(_CONFIG, name):
            raise ValidationException(
                f"The endpoint {name} was created by the SageMaker API; delete it there first"
            )
        if seen is not None and seen.state is EndpointState.DELETING:
            return  # its end causes another check
        await self._have_definitions(wanted)
        if seen is None:
            await self._ask("CreateEndpoint", EndpointName=name, EndpointConfigName=name)
        else:
            await self._change(wanted, seen)

    async def _have_none(self, name: str, seen: ObservedEndpoint | None) -> None:
        if not self.owns(_CONFIG, name):
            return
        if seen is None:
            await self._ask("DeleteEndpointConfig", EndpointConfigName=name)
            self._known.discard(name)
        elif seen.state is not EndpointState.DELETING:
            self._known.add(name)
            await self._ask("DeleteEndpoint", EndpointName=name)

    async def _have_definitions(self, wanted: WantedEndpoint) -> None:
        """Make the wanted models and configuration; endpoints keep copies of them."""
        mark = {_MARK: wanted.name}
        for name, members in wanted.models.items():
            kept = {**mark, **kept_of_maker(wanted.makers[name])}
            await self._have_resource(_MODEL, "Model", name, members, kept)
        await self._have_resource(_CONFIG, "EndpointConfig", wanted.name, wanted.config, mark)

    async def _have_resource(
        self,
        kind: Kind,
        noun: str,
        name: str,
        members: Mapping[str, Any],
        kept: Mapping[str, Any],
    ) -> None:
        found = self._resources.find(kind, name)
        if found is not None:
            if _MARK not in found.kept:
                raise ValidationException(
                    f"The {kind} {name} was created by the SageMaker API; delete it there "
                    "first, or give the object another name"
                )
            if found.members == members:
                return
            await self._ask(f"Delete{noun}", **{f"{noun}Name": name})
        await self._ask(f"Create{noun}", kept, **members)

    async def _change(self, wanted: WantedEndpoint, seen: ObservedEndpoint) -> None:
        name, plan = wanted.name, seen.plan
        has_models, has_shares = wanted.has_models_of(plan), wanted.has_shares_of(plan)
        if has_models and has_shares:
            self._tried[name] = wanted
            return
        if seen.state is EndpointState.CREATING or (
            seen.state is EndpointState.FAILED and seen.serving is None
        ):
            await self._ask("DeleteEndpoint", EndpointName=name)  # the next check creates it again
            return
        if seen.is_changing or self._tried.get(name) == wanted:
            return
        if has_models and set(wanted.shares) == set(plan.variant_names):
            desired = [
                {"VariantName": model, "DesiredWeight": float(share)}
                for model, share in wanted.shares.items()
            ]
            await self._ask(
                "UpdateEndpointWeightsAndCapacities",
                EndpointName=name,
                DesiredWeightsAndCapacities=desired,
            )
        else:
            await self._ask(
                "UpdateEndpoint",
                EndpointName=name,
                EndpointConfigName=name,
                RetainAllVariantProperties=True,
                ExcludeRetainedVariantProperties=[{"VariantPropertyType": "DesiredWeight"}],
            )
        self._tried[name] = wanted

    async def _ask(
        self, operation: str, kept: Mapping[str, Any] | None = None, /, **members: Any
    ) -> None:
        await self._plane.ask_for_callers(operation, members, _IDENTITY, kept or {})

    def _seen(self, name: str) -> ObservedEndpoint | None:
        resource = self._keeper.find(name)
        if resource is None:
            return None
        return ObservedEndpoint.of(resource, self._keeper, self._router)

    # --- Status of objects -----------------------------------------------------------------------

    async def _note(
        self, name: str, owner: CustomObject | None, wanted: WantedEndpoint | None
    ) -> None:
        """Write an endpoint's state to its objects, and remove objects that are gone."""
        seen, trouble = self._seen(name), self._troubles.get(name, "")
        now = rfc3339(self._wall_clock())
        try:
            async with self._objects.changing():
                owner = owner and self._objects.find(ENDPOINT, *owner.key)
                if owner is not None:
                    await self._note_endpoint(owner, wanted, seen, trouble, now)
                for each in list(self._objects.of_endpoint(DEPLOYED_MODEL, name)):
                    await self._note_model(each, wanted, seen, trouble, now)
        except ApiError as error:
            reason = error.for_operator
            log.warning(
                LogLine(
                    "the status of a custom resource could not be stored; trying again",
                    endpoint=name,
                    reason=reason,
                )
            )
            self._queue.add_later(name, RETRY_INTERVAL)

    async def _note_endpoint(
        self,
        owner: CustomObject,
        wanted: WantedEndpoint | None,
        seen: ObservedEndpoint | None,
        trouble: str,
        now: str,
    ) -> None:
        name = endpoint_of(owner)
        if owner.deleting:
            if seen is None and not self.owns(_CONFIG, name):
                await self._objects.remove(owner)
            return
        if wanted is None:
            return
        how = endpoint_readiness(wanted, seen, trouble)
        status = endpoint_status(owner, how, f"{name}.{self._domain}", now)
        if status != owner.status:
            await self._objects.put(dataclasses.replace(owner, status=status))

    async def _note_model(
        self,
        model: CustomObject,
        wanted: WantedEndpoint | None,
        seen: ObservedEndpoint | None,
        trouble: str,
        now: str,
    ) -> None:
        if model.deleting:
            if not self._is_run(model, seen):
                if self.owns(_MODEL, model.name):
                    await self._ask("DeleteModel", ModelName=model.name)
                await self._objects.remove(model)
            return
        if wanted is not None and model.name not in wanted.models:
            return  # it belongs to another namespace
        how = model_readiness(model.name, wanted, seen, trouble)
        status = model_status(model, how, now)
        if status != model.status:
            await self._objects.put(dataclasses.replace(model, status=status))

    def _is_run(self, model: CustomObject, seen: ObservedEndpoint | None) -> bool:
        """Whether an endpoint still has instances of a DeployedModel that it is going to lose."""
        if seen is None or not seen.runs(model.name):
            return False
        tried = self._tried.get(endpoint_of(model))
        is_over = tried is not None and model.name not in tried.models and not seen.is_changing
        return not is_over and self.owns(_CONFIG, endpoint_of(model))
