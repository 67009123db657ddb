"""EmbeddedEndpoints: endpoints of the gateway's own control plane, for objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.control.control_plane import ControlPlane
from partway.gateway.apis.control.endpoint_reconciler import EndpointKeeper
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.resources import Kind, Resources, kept_of_maker
from partway.gateway.apis.kubernetes.conditions import Readiness
from partway.gateway.apis.kubernetes.custom_object import CustomObject
from partway.gateway.apis.kubernetes.deployment_from_spec import WantedEndpoint
from partway.gateway.apis.kubernetes.endpoint_rules import endpoint_of
from partway.gateway.apis.kubernetes.object_status import (
    ObservedEndpoint,
    endpoint_readiness,
    model_readiness,
)
from partway.gateway.fleet.routing.router import Router
from partway.gateway.fleet.status import EndpointState

#: Marks the models and configurations that custom resources have made.
_MARK: Final = "custom_resource"

#: The caller in the control plane; permissions were checked when the object was changed.
_IDENTITY: Final = Identity("custom resources")

_MODEL: Final[Kind] = "model"
_CONFIG: Final[Kind] = "endpoint-config"


class EmbeddedEndpoints:
    """Changes endpoints by the control plane's own operations.

    If the gateway is killed during a change, the next gateway continues: the wanted state is in the
    objects, and the actual state in the API's resources.

    It is an :class:`~partway.gateway.apis.kubernetes.endpoint_backend.EndpointBackend`.
    """

    def __init__(
        self, plane: ControlPlane, resources: Resources, keeper: EndpointKeeper, router: Router
    ) -> None:
        self.on_change: Callable[[str], object] = lambda _: None
        self.on_other_settings: Callable[[], object] = lambda: None
        self._plane = plane
        self._resources = resources
        self._keeper = keeper
        self._router = router
        #: The last request for each endpoint, so that a failed one is not repeated for ever.
        self._tried: dict[str, WantedEndpoint] = {}
        self._known: set[str] = set()

    def start(self) -> None:
        self._keeper.on_change = self._endpoint_changed
        self._keeper.on_other_settings = self._settings_changed

    def names(self) -> Iterator[str]:
        for kept in (_MODEL, _CONFIG):
            for resource in self._resources.all(kept):
                if _MARK in resource.kept:
                    yield resource.kept[_MARK]

    def owns(self, kind: Kind, name: str) -> bool:
        """Whether a resource of the API was made for an object."""
        found = self._resources.find(kind, name)
        return found is not None and _MARK in found.kept

    async def have(self, name: str, wanted: WantedEndpoint | None) -> None:
        self._keeper.check_takes_changes()
        await self._plane.whole(self._have(name, wanted))

    def _endpoint_changed(self, name: str) -> None:
        if name in self._known:
            self.on_change(name)

    def _settings_changed(self) -> None:
        self._tried.clear()
        self.on_other_settings()

    # --- Changes ---------------------------------------------------------------------------------

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

    # --- State -----------------------------------------------------------------------------------

    def endpoint_readiness(self, wanted: WantedEndpoint, trouble: str) -> Readiness:
        return endpoint_readiness(wanted, self._seen(wanted.name), trouble)

    def model_readiness(
        self, model: CustomObject, wanted: WantedEndpoint | None, trouble: str
    ) -> Readiness:
        seen = None if wanted is None else self._seen(wanted.name)
        return model_readiness(model.name, wanted, seen, trouble)

    def is_gone(self, name: str) -> bool:
        return self._seen(name) is None and not self.owns(_CONFIG, name)

    async def let_go(self, model: CustomObject) -> bool:
        if self._is_run(model, self._seen(endpoint_of(model))):
            return False
        if self.owns(_MODEL, model.name):
            await self._ask("DeleteModel", ModelName=model.name)
        return True

    def _is_run(self, model: CustomObject, seen: ObservedEndpoint | None) -> bool:
        """Whether an endpoint still has instances of a DeployedModel that it is going to lose."""
        if seen is None or not seen.runs(model.name):
            return False
        tried = self._tried.get(endpoint_of(model))
        is_over = tried is not None and model.name not in tried.models and not seen.is_changing
        return not is_over and self.owns(_CONFIG, endpoint_of(model))
