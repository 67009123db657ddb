"""Endpoint objects of a cluster: each is an endpoint, and its destinations are variants."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from partway.gateway.apis.kubernetes.custom_object import ENDPOINT, CustomObject
from partway.gateway.apis.kubernetes.endpoint_rules import (
    age,
    endpoint_of,
    in_words,
    object_faults,
    owned_by,
    owner_of,
    shares_of,
)
from partway.gateway.cluster.answers import ClusterObject, Collection
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.watched_collection import ObjectKey, WatchedCollection
from partway.gateway.discovery.limits import LOOK_DELAY, MAX_ENDPOINT_OBJECTS
from partway.gateway.fleet.endpoint import Discovered, Endpoint, Variant
from partway.gateway.fleet.fleet import Fleet, FleetStopping
from partway.gateway.settings.settings import Settings
from partway.gateway.timing.clock import Clock, Timer
from partway.log_lines import LogLine

log = logging.getLogger("partway.cluster")


class EndpointObjects:
    """Has the fleet run an endpoint for each Endpoint object of a namespace.

    1. An endpoint has the name that its object's spec gives, or else the object's own name.
    2. The Service of a destination has the name of its DeployedModel, and the operator has made it
       for this endpoint. So an object reaches neither other endpoints' models nor other Services.
    3. The objects that the operator refuses are set aside: see :mod:`partway.gateway.apis.
       kubernetes.endpoint_rules`.
    4. A name that the settings or the API have stays theirs. Of too many objects the oldest count.

    The log names each object that is set aside.

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
        self._clock = clock
        self._on_listed = on_listed
        self._valid: dict[ObjectKey, CustomObject] = {}
        self._faulty: dict[ObjectKey, str] = {}
        self._made: dict[ObjectKey, Endpoint] = {}  # of the objects and settings as they are
        self._objects = WatchedCollection(
            server,
            Collection(ENDPOINT.api_version, ENDPOINT.plural, namespace),
            clock,
            self._changed,
        )
        self._running: dict[str, Endpoint] = {}
        self._set_aside: dict[ObjectKey, str] = {}
        self._look: Timer | None = None
        self._listing = asyncio.create_task(self._list(), name="Endpoint objects")

    @property
    def is_listed(self) -> bool:
        return self._objects.listed.is_set()

    def take_settings(self, settings: Settings) -> None:
        """Leave the names of new settings to them; the fleet is about to follow them."""
        self._settings = settings
        self._made.clear()
        for name in {each.name for each in settings.endpoints} & self._running.keys():
            del self._running[name]

    def follow(self) -> None:
        """Have the fleet run what the objects say now."""
        self._look_no_more()
        if not self.is_listed:
            return
        try:
            self._run(self._wanted())
        except FleetStopping:
            log.debug("Endpoint objects are not followed: the gateway is stopping")
        except Exception:  # nobody foresaw it: the next change may succeed
            log.exception("Endpoint objects could not be followed")

    async def aclose(self) -> None:
        self._listing.cancel()
        await asyncio.wait((self._listing,))
        await self._objects.aclose()
        self._look_no_more()

    async def _list(self) -> None:
        self._objects.start()
        await self._objects.listed.wait()
        self.follow()
        self._on_listed()

    def _changed(self, key: ObjectKey, now: ClusterObject | None, _: ClusterObject | None) -> None:
        self._valid.pop(key, None)
        self._faulty.pop(key, None)
        self._made.pop(key, None)
        if now is not None and not now["metadata"].get("deletionTimestamp"):
            custom = CustomObject.read(ENDPOINT, now)
            if why := in_words([*object_faults(custom)]):
                self._faulty[key] = why
            else:
                self._valid[key] = custom
        if self._look is None:
            self._look = self._clock.call_later(LOOK_DELAY, self.follow)

    def _look_no_more(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

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
        aside = dict(self._faulty)
        rivals: dict[str, list[CustomObject]] = {}
        for each in self._valid.values():
            rivals.setdefault(endpoint_of(each), []).append(each)
        owners = {name: owner_of(each) for name, each in rivals.items()}
        of_settings = {each.name.lower(): each.name for each in self._settings.endpoints}
        for each in sorted(self._valid.values(), key=age):
            name, key = endpoint_of(each), ObjectKey(*each.key)
            owner = owners[name]
            why = owned_by(owner) if owner is not each else self._taken(name, of_settings)
            if not why and len(found) >= MAX_ENDPOINT_OBJECTS:
                why = f"a gateway follows at most {MAX_ENDPOINT_OBJECTS} Endpoint objects"
            if why:
                aside[key] = why
            else:
                if key not in self._made:
                    self._made[key] = endpoint_from(each, self._settings)
                found[name] = self._made[key]
        self._tell(aside)
        return found

    def _taken(self, name: str, of_settings: dict[str, str]) -> str:
        """Return why a name is not free in this gateway; empty if it is."""
        if name in of_settings:
            return f"the settings have the endpoint {of_settings[name]!r}, which counts"
        status = self._fleet.status(name)
        if status is not None and name not in self._running and status.state != "Deleting":
            return f"the API has created the endpoint {name!r}, which counts"
        return ""

    def _tell(self, aside: dict[ObjectKey, str]) -> None:
        before, self._set_aside = self._set_aside, aside
        for key, why in aside.items():
            if before.get(key) != why:
                line = "an Endpoint object is set aside"
                log.warning(LogLine(line, namespace=key.namespace, object=key.name, reason=why))


def endpoint_from(custom: CustomObject, settings: Settings) -> Endpoint:
    """Return the endpoint of an Endpoint object without faults."""
    name = endpoint_of(custom)
    variants = (
        Variant(
            source=Discovered(f"{custom.namespace}/{model}", endpoint=name),
            name=model,
            weight=float(share),
            times=settings.times,
        )
        for model, share in shares_of(custom.spec).items()
    )
    return Endpoint(name, settings.policy, tuple(variants))
