"""Endpoint objects of a cluster: each is an endpoint, and its destinations are variants."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from partway.gateway.cluster.answers import ClusterObject, Collection
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.watched_collection import ObjectKey, WatchedCollection
from partway.gateway.fleet.endpoint import Discovered, Endpoint, Variant, check_name
from partway.gateway.fleet.fleet import Fleet, FleetStopping
from partway.gateway.settings.settings import Settings
from partway.gateway.timing.clock import Clock
from partway.log_lines import LogLine
from partway.protocol.errors import InputValidationError

log = logging.getLogger("partway.cluster")

_API_VERSION, _PLURAL = "aiplatform.gdc.goog/v1", "endpoints"


class EndpointObjects:
    """Has the fleet run an endpoint for each Endpoint object of a namespace.

    1. An endpoint has the name that its object's spec gives, or else the object's own name.
    2. The Service of a destination has the name of its DeployedModel, and the operator has made it
       for this endpoint. So an object reaches neither other endpoints' models nor other Services.
    3. Of several objects with one name the oldest counts. A name that the settings or the API have
       stays theirs. The log names each object that is set aside.

    Args:
        on_listed: called once the objects are known.
    """

    def __init__(
        self,
        server: ApiServer,
        namespace: str,
        fleet: Fleet,
        settings: Settings,
        clock: Clock,
        on_listed: Callable[[], object],
    ) -> None:
        self._fleet = fleet
        self._settings = settings
        self._on_listed = on_listed
        self._objects = WatchedCollection(
            server, Collection(_API_VERSION, _PLURAL, namespace), clock, self._changed
        )
        self._running: dict[str, Endpoint] = {}
        self._set_aside: dict[ObjectKey, str] = {}
        self._will_look = False
        self._listing = asyncio.create_task(self._list(), name="Endpoint objects")

    @property
    def is_listed(self) -> bool:
        return self._objects.listed.is_set()

    def take_settings(self, settings: Settings) -> None:
        """Leave the names of new settings to them; the fleet is about to follow them."""
        self._settings = settings
        for name in self._names_of_settings() & self._running.keys():
            del self._running[name]

    def follow(self) -> None:
        """Have the fleet run what the objects say now."""
        self._will_look = False
        if not self.is_listed:
            return
        try:
            self._run(self._wanted())
        except FleetStopping:
            log.debug("Endpoint objects are not followed: the gateway is stopping")

    async def aclose(self) -> None:
        self._listing.cancel()
        await asyncio.wait((self._listing,))
        await self._objects.aclose()

    async def _list(self) -> None:
        self._objects.start()
        await self._objects.listed.wait()
        self.follow()
        self._on_listed()

    def _changed(self, *_: object) -> None:
        if not self._will_look:
            self._will_look = True
            asyncio.get_running_loop().call_soon(self.follow)

    def _run(self, wanted: dict[str, Endpoint]) -> None:
        for name in [*self._running]:
            if name not in wanted:
                del self._running[name]
                self._fleet.remove(name)
        for name, endpoint in wanted.items():
            if self._running.get(name) != endpoint:
                self._fleet.apply(endpoint, awaited=False)
                self._running[name] = endpoint

    def _wanted(self) -> dict[str, Endpoint]:
        found: dict[str, Endpoint] = {}
        aside: dict[ObjectKey, str] = {}
        taken = {each.lower(): each for each in self._names_of_settings()}
        for key, each in sorted(self._objects.objects.items(), key=_age):
            if each["metadata"].get("deletionTimestamp"):
                continue
            try:
                endpoint = endpoint_from(each, self._settings)
                self._check_free(endpoint.name, taken)
            except InputValidationError as error:
                aside[key] = str(error)
                continue
            taken[endpoint.name.lower()] = endpoint.name
            found[endpoint.name] = endpoint
        self._tell(aside)
        return found

    def _check_free(self, name: str, taken: dict[str, str]) -> None:
        """Refuse a name that the settings, an older object or the API has.

        Raises:
            InputValidationError: one of them has it; the message says which.
        """
        if name in self._names_of_settings():
            raise InputValidationError(f"the settings have the endpoint {name!r}, which counts")
        if name.lower() in taken:
            other = taken[name.lower()]
            raise InputValidationError(f"an older object or the settings have the name {other!r}")
        status = self._fleet.status(name)
        if status is not None and name not in self._running and status.state != "Deleting":
            raise InputValidationError(f"the API has created the endpoint {name!r}, which counts")

    def _names_of_settings(self) -> set[str]:
        return {each.name for each in self._settings.endpoints}

    def _tell(self, aside: dict[ObjectKey, str]) -> None:
        before, self._set_aside = self._set_aside, aside
        for key, why in aside.items():
            if before.get(key) != why:
                line = "an Endpoint object is set aside"
                log.warning(LogLine(line, namespace=key.namespace, object=key.name, reason=why))


def endpoint_from(found: ClusterObject, settings: Settings) -> Endpoint:
    """Return the endpoint of an Endpoint object.

    Raises:
        InputValidationError: the object cannot be an endpoint; the message says why.
    """
    spec = found.get("spec") or {}
    metadata = found["metadata"]
    name = str(spec.get("id") or spec.get("userProvidedID") or metadata["name"])
    check_name(name)
    variants = tuple(
        _variants(name, spec.get("destinations") or (), metadata["namespace"], settings)
    )
    names = [each.name for each in variants]
    if not names or len(set(names)) < len(names):
        said = ", ".join(names) or "none"
        raise InputValidationError(
            f"spec.destinations has these DeployedModels: {said}; it must have at least one, and "
            "each once"
        )
    return Endpoint(name, settings.policy, variants)


def _variants(
    endpoint: str, destinations: Iterable[ClusterObject], namespace: str, settings: Settings
) -> Iterable[Variant]:
    there = [*destinations]
    only = 100 if len(there) == 1 else 0
    for each in there:
        model = str(each["serviceRef"]["name"])
        check_name(model)
        yield Variant(
            source=Discovered(f"{namespace}/{model}", endpoint=endpoint),
            name=model,
            weight=float(each.get("trafficPercentage", only)),
            times=settings.times,
        )


def _age(item: tuple[ObjectKey, ClusterObject]) -> tuple[str, ObjectKey]:
    key, found = item
    return str(found["metadata"].get("creationTimestamp", "")), key
