"""Checks of objects against other objects, the API's resources and the settings."""

from __future__ import annotations

from typing import Final

from partway.gateway.apis.control.control_plane import ControlPlane
from partway.gateway.apis.control.endpoint_plans import DeploymentPlan
from partway.gateway.apis.control.endpoint_reconciler import EndpointKeeper
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.resources import Resources
from partway.gateway.apis.kubernetes.admission import AskedObject, details_of, invalid
from partway.gateway.apis.kubernetes.custom_object import (
    DEPLOYED_MODEL,
    ENDPOINT,
    CustomKind,
    CustomObject,
)
from partway.gateway.apis.kubernetes.deployment_from_spec import WantedEndpoint, model_members
from partway.gateway.apis.kubernetes.embedded_endpoints import EmbeddedEndpoints
from partway.gateway.apis.kubernetes.endpoint_rules import endpoint_of, traffic_faults
from partway.gateway.apis.kubernetes.errors import ObjectConflict
from partway.gateway.apis.kubernetes.objects import CustomObjects
from partway.gateway.apis.kubernetes.schemas import fault

_WHOLE: Final = 100


class ObjectRules:
    def __init__(
        self,
        objects: CustomObjects,
        plane: ControlPlane,
        resources: Resources,
        keeper: EndpointKeeper,
        endpoints: EmbeddedEndpoints,
    ) -> None:
        self._objects = objects
        self._plane = plane
        self._resources = resources
        self._keeper = keeper
        self._endpoints = endpoints

    async def check_spec(self, kind: CustomKind, namespace: str, asked: AskedObject) -> None:
        """Refuse a spec that cannot be honoured by itself.

        This looks at the file system if model data is on this machine.

        Raises:
            InvalidObject: the causes name the members.
        """
        if kind is DEPLOYED_MODEL:
            await self._check_model(kind, asked)
        elif causes := list(traffic_faults(namespace, asked.spec)):
            raise invalid(kind, asked.name, causes)

    async def _check_model(self, kind: CustomKind, asked: AskedObject) -> None:
        members = model_members(asked.name, asked.spec)
        wanted = WantedEndpoint(asked.name, {asked.name: members}, {asked.name: _WHOLE})
        try:
            await self._plane.checked("CreateModel", members)
            plan = DeploymentPlan(wanted.config, wanted.models)
            await self._keeper.planning.endpoint_of(asked.name, plan)
        except ValidationException as error:
            cause = fault("spec.modelSpec", error.message)
            raise invalid(kind, asked.name, [cause]) from None

    def check_place(self, made: CustomObject, before: CustomObject | None) -> None:
        """Refuse an object if its name or its endpoint's name is taken.

        Call this inside ``CustomObjects.changing()``.

        Args:
            before: the existing object; None for a new object.

        Raises:
            ObjectConflict: a name is taken, or the object is being deleted.
            InvalidObject: the change names another endpoint than before.
        """
        details = details_of(made.kind, made.name)
        what = f'{made.kind.plural}.{made.kind.group} "{made.name}"'
        if before is not None:
            if before.deleting:
                raise ObjectConflict(f"{what} is being deleted; wait until it is gone", **details)
            if endpoint_of(before) != endpoint_of(made):
                member = "endpointPath" if made.kind is DEPLOYED_MODEL else "id"
                why = "field is immutable: delete the object and create it again"
                cause = fault(f"spec.{member}", why)
                raise invalid(made.kind, made.name, [cause])
            return
        if taken := self._taken_by(made):
            raise ObjectConflict(f"{what} cannot be created: {taken}", **details)

    def _taken_by(self, made: CustomObject) -> str:
        """Return the current owner of the object's names, in words; empty if they are free."""
        name = endpoint_of(made)
        if made.kind is DEPLOYED_MODEL:
            for each in self._objects.all(DEPLOYED_MODEL):
                if each.name == made.name:
                    where = f"the namespace {each.namespace}"
                    return (
                        f"{where} has a DeployedModel of this name, which must be unique across "
                        "namespaces"
                    )
            is_there = self._resources.find("model", made.name) is not None
            if is_there and not self._endpoints.owns("model", made.name):
                return "a model of this name was created by the SageMaker API"
            return ""
        for each in self._objects.of_endpoint(ENDPOINT, name):
            return f"the endpoint {name} belongs to the Endpoint {each.namespace}/{each.name}"
        if name in self._keeper.of_settings:
            return f"the gateway's settings define the endpoint {name}"
        for kind in ("endpoint", "endpoint-config"):
            is_there = self._resources.find(kind, name) is not None
            if is_there and not self._endpoints.owns("endpoint-config", name):
                return f"the {kind} {name} was created by the SageMaker API"
        return ""
