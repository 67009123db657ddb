"""Kubernetes' API in a gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partway.gateway.apis.control.api import ControlApi
from partway.gateway.apis.kubernetes.controller import EndpointController
from partway.gateway.apis.kubernetes.cross_checks import ObjectRules
from partway.gateway.apis.kubernetes.embedded_endpoints import EmbeddedEndpoints
from partway.gateway.apis.kubernetes.http_routes import KubernetesService
from partway.gateway.apis.kubernetes.objects import CustomObjects
from partway.gateway.apis.kubernetes.operations import ObjectOperations
from partway.gateway.apis.kubernetes.permissions import ObjectLeave
from partway.gateway.http.routes import Route
from partway.gateway.service import Service

if TYPE_CHECKING:
    from partway.gateway.gateway import Gateway


class KubernetesApi(Service):
    def __init__(self, gateway: Gateway) -> None:
        control = gateway.service(ControlApi)
        plane, resources, keeper = control.plane, control.resources, control.endpoint_keeper
        clock, wall_clock = gateway.clock, gateway.wall_clock
        objects = CustomObjects(gateway.store, clock, wall_clock)
        endpoints = EmbeddedEndpoints(plane, resources, keeper, gateway.router)
        controller = EndpointController(
            objects, endpoints, clock, wall_clock, gateway.settings.endpoint_domain
        )
        rules = ObjectRules(objects, plane, resources, keeper, endpoints)
        leave = ObjectLeave(gateway.arns, lambda name: keeper.find(name) is not None)
        operations = ObjectOperations(objects, rules, leave, wall_clock, plane.whole)
        self._objects = KubernetesService(
            objects, operations, controller, leave, plane.check_read, clock, wall_clock
        )
        control.at_read.append(self._objects.load)
        control.at_run.append(self._objects.start)

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes of discovery and of objects, and one for all other paths."""
        return self._objects.routes

    async def close_to_new(self) -> None:
        await self._objects.aclose()


def install(gateway: Gateway) -> None:
    gateway.service(KubernetesApi)
