"""The controller, which changes endpoints to match their objects and writes their state back."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.kubernetes.conditions import endpoint_status, model_status
from partway.gateway.apis.kubernetes.custom_object import DEPLOYED_MODEL, ENDPOINT, CustomObject
from partway.gateway.apis.kubernetes.deployment_from_spec import WantedEndpoint, wanted_endpoint
from partway.gateway.apis.kubernetes.endpoint_backend import EndpointBackend
from partway.gateway.apis.kubernetes.endpoint_rules import endpoint_of
from partway.gateway.apis.kubernetes.limits import ENDPOINTS_AT_ONCE, RETRY_INTERVAL
from partway.gateway.apis.kubernetes.object_store import ObjectStore
from partway.gateway.apis.kubernetes.work_queue import WorkQueue
from partway.gateway.timing.clock import Clock
from partway.log_lines import LogLine
from partway.protocol.errors import ApiError

log = logging.getLogger("partway.kubernetes")


def rfc3339(seconds: float) -> str:
    """Return a time in Kubernetes' format: to the second, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class EndpointController:
    """Has a backend run the endpoints of objects, and writes their states to the objects.

    Args:
        wall_clock: returns epoch seconds.
        domain: the suffix of each endpoint's domain name.
    """

    def __init__(
        self,
        objects: ObjectStore,
        backend: EndpointBackend,
        clock: Clock,
        wall_clock: Callable[[], float],
        domain: str,
    ) -> None:
        self._objects = objects
        self._backend = backend
        self._wall_clock = wall_clock
        self._domain = domain
        self._queue = WorkQueue(self._work, ENDPOINTS_AT_ONCE, clock)
        self._troubles: dict[str, str] = {}

    def start(self) -> None:
        """Check all objects now, and each changed object from now on."""
        self._objects.on_change = self._object_changed
        self._backend.on_change = self._queue.add
        self._backend.on_other_settings = self.look_at_all
        self._backend.start()
        self.look_at_all()

    def look_at_all(self) -> None:
        """Check all endpoints again; new settings may allow what failed before."""
        for kind in (ENDPOINT, DEPLOYED_MODEL):
            for each in self._objects.all(kind):
                self._object_changed(each, each)
        for name in self._backend.names():
            self._queue.add(name)

    async def aclose(self) -> None:
        await self._queue.aclose()

    def endpoint_object(self, name: str) -> CustomObject | None:
        """Return the Endpoint object for an endpoint; None without an object."""
        return next(iter(self._objects.of_endpoint(ENDPOINT, name)), None)

    def _object_changed(self, changed: CustomObject, before: CustomObject | None) -> None:
        if before is not None and _is_of_status_alone(changed, before):
            return  # the controller itself has made it
        for each in (changed, *([before] if before else [])):
            self._queue.add(endpoint_of(each))

    # --- One endpoint ----------------------------------------------------------------------------

    async def _work(self, name: str) -> None:
        """Change an endpoint to match its objects, and write its state to them."""
        owner = self.endpoint_object(name)
        wanted = None
        if owner is not None and not owner.deleting:
            wanted = wanted_endpoint(owner, self._objects.of_endpoint(DEPLOYED_MODEL, name))
        try:
            await self._backend.have(name, wanted)
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

    # --- Status of objects -----------------------------------------------------------------------

    async def _note(
        self, name: str, owner: CustomObject | None, wanted: WantedEndpoint | None
    ) -> None:
        """Write an endpoint's state to its objects, and remove objects that are gone."""
        trouble = self._troubles.get(name, "")
        now = rfc3339(self._wall_clock())
        try:
            async with self._objects.changing():
                owner = owner and self._objects.find(ENDPOINT, *owner.key)
                if owner is not None:
                    await self._note_endpoint(owner, wanted, trouble, now)
                for each in list(self._objects.of_endpoint(DEPLOYED_MODEL, name)):
                    await self._note_model(each, wanted, trouble, now)
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
        self, owner: CustomObject, wanted: WantedEndpoint | None, trouble: str, now: str
    ) -> None:
        name = endpoint_of(owner)
        if owner.deleting:
            if self._backend.is_gone(name):
                await self._objects.remove(owner)
            return
        if wanted is None:
            return
        how = self._backend.endpoint_readiness(wanted, trouble)
        status = endpoint_status(owner, how, f"{name}.{self._domain}", now)
        if status != owner.status:
            await self._objects.put(dataclasses.replace(owner, status=status))

    async def _note_model(
        self, model: CustomObject, wanted: WantedEndpoint | None, trouble: str, now: str
    ) -> None:
        if model.deleting:
            if await self._backend.let_go(model):
                await self._objects.remove(model)
            return
        if wanted is not None and model.name not in wanted.models:
            return  # it belongs to another namespace
        how = self._backend.model_readiness(model, wanted, trouble)
        status = model_status(model, how, now)
        if status != model.status:
            await self._objects.put(dataclasses.replace(model, status=status))


def _is_of_status_alone(changed: CustomObject, before: CustomObject) -> bool:
    if changed.status == before.status:
        return False
    return dataclasses.replace(changed, status=before.status, version=before.version) == before
