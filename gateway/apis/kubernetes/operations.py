"""The operations on objects, independent of HTTP: get, list, create, change, delete."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.control.model_data_permission import check_may_read
from partway.gateway.apis.kubernetes.admission import AskedObject, asked_object, details_of
from partway.gateway.apis.kubernetes.controller import rfc3339
from partway.gateway.apis.kubernetes.cross_checks import ObjectRules
from partway.gateway.apis.kubernetes.custom_object import (
    DEPLOYED_MODEL,
    ENDPOINT,
    CustomKind,
    CustomObject,
)
from partway.gateway.apis.kubernetes.deployment_from_spec import model_members
from partway.gateway.apis.kubernetes.endpoint_rules import endpoint_of, shares_of
from partway.gateway.apis.kubernetes.errors import ObjectConflict, ObjectExists, ObjectNotFound
from partway.gateway.apis.kubernetes.objects import CustomObjects
from partway.gateway.apis.kubernetes.permissions import ObjectLeave, Verb
from partway.gateway.apis.kubernetes.request_bodies import merged

#: Runs a change to its end, even if its caller is cancelled.
Unbroken: TypeAlias = Callable[[Coroutine[Any, Any, CustomObject]], Awaitable[CustomObject]]


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """The place of the object that a request names.

    Attributes:
        name: the name; empty if only the body has it.
    """

    kind: CustomKind
    namespace: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Asker:
    identity: Identity
    is_dry_run: bool = False


class ObjectOperations:
    """The operations on objects.

    Args:
        wall_clock: returns epoch seconds.
        unbroken: runs a change to its end, so that a stored change becomes visible though its
            client has left.
    """

    def __init__(
        self,
        objects: CustomObjects,
        rules: ObjectRules,
        leave: ObjectLeave,
        wall_clock: Callable[[], float],
        unbroken: Unbroken,
    ) -> None:
        self._objects = objects
        self._rules = rules
        self._leave = leave
        self._wall_clock = wall_clock
        self._unbroken = unbroken

    def get(self, place: ObjectPlace, identity: Identity) -> CustomObject:
        """Return an object.

        Raises:
            AccessDenied: the caller may not see the object.
            ObjectNotFound: there is no such object.
        """
        self._leave.check(identity, "get", place.kind, place.name)
        return self._existing(place)

    async def create(self, place: ObjectPlace, body: Mapping[str, Any], who: Asker) -> CustomObject:
        asked = asked_object(place.kind, place.namespace, body)
        named = dataclasses.replace(place, name=asked.name)
        return await self._write(named, asked, who, None)

    async def replace(
        self, place: ObjectPlace, body: Mapping[str, Any], who: Asker
    ) -> CustomObject:
        return await self._update(place, self.get(place, who.identity), body, who)

    async def patch(self, place: ObjectPlace, patch: Mapping[str, Any], who: Asker) -> CustomObject:
        live = self.get(place, who.identity)
        return await self._update(place, live, merged(live.shown(), patch), who)

    async def _update(
        self, place: ObjectPlace, live: CustomObject, body: Mapping[str, Any], who: Asker
    ) -> CustomObject:
        asked = asked_object(place.kind, place.namespace, body, place.name)
        asked.check_is_of(live)
        return await self._write(place, asked, who, live)

    async def delete(
        self, place: ObjectPlace, preconditions: Mapping[str, Any], who: Asker
    ) -> CustomObject:
        """Begin the deletion of an object, which is gone once its endpoint or model is."""
        live = self.get(place, who.identity)
        self._leave.check(who.identity, "delete", place.kind, place.name, endpoint_of(live))
        AskedObject(
            live.name,
            {},
            uid=str(preconditions.get("uid") or ""),
            version=str(preconditions.get("resourceVersion") or ""),
        ).check_is_of(live)
        if live.deleting or who.is_dry_run:
            return live
        return await self._unbroken(self._let_go(place))

    async def _let_go(self, place: ObjectPlace) -> CustomObject:
        async with self._objects.changing():
            live = self._existing(place)
            if live.deleting:
                return live
            going = dataclasses.replace(live, deleting=self._now(), generation=live.generation + 1)
            return await self._objects.put(going)

    # --- Lookups ---------------------------------------------------------------------------------

    def _existing(self, place: ObjectPlace) -> CustomObject:
        found = self._objects.find(place.kind, place.namespace, place.name)
        if found is None:
            raise ObjectNotFound(
                f'{place.kind.plural}.{place.kind.group} "{place.name}" not found',
                **details_of(place.kind, place.name),
            )
        return found

    async def _write(
        self,
        place: ObjectPlace,
        asked: AskedObject,
        who: Asker,
        live: CustomObject | None,
    ) -> CustomObject:
        """Create or change an object.

        Args:
            live: the object that the change is based on; None for a new object.

        Raises:
            ApiError: the object cannot be honoured, or was changed meanwhile.
        """
        made = self._made(place, asked, live, who.identity)
        verb: Verb = "create" if live is None else "update"
        self._leave.check(
            *(who.identity, verb, place.kind, place.name, endpoint_of(made)),
            models=self._models_of(made),
        )
        if place.kind is DEPLOYED_MODEL and (live is None or live.spec != made.spec):
            check_may_read(who.identity, model_members(made.name, made.spec)["PrimaryContainer"])
        await self._rules.check_spec(place.kind, place.namespace, asked)
        return await self._unbroken(self._put(place, made, live, is_dry_run=who.is_dry_run))

    def _models_of(self, made: CustomObject) -> Iterable[str]:
        """Return the names of the DeployedModels that an Endpoint runs."""
        if made.kind is not ENDPOINT:
            return ()
        own = self._objects.of_endpoint(DEPLOYED_MODEL, endpoint_of(made))
        return dict.fromkeys([*shares_of(made.spec), *(each.name for each in own)])

    async def _put(
        self, place: ObjectPlace, made: CustomObject, live: CustomObject | None, *, is_dry_run: bool
    ) -> CustomObject:
        """Store an object, unless the object that it is based on has changed meanwhile."""
        async with self._objects.changing():
            now = self._objects.find(place.kind, place.namespace, place.name)
            if now is not None and live is None:
                raise ObjectExists(
                    f'{place.kind.plural}.{place.kind.group} "{place.name}" already exists',
                    **details_of(place.kind, place.name),
                )
            if live is not None:
                self._check_unchanged(place, live, now)
                assert now is not None
                made = dataclasses.replace(made, status=now.status, version=now.version)
                if made == now:
                    return now
            self._rules.check_place(made, now)
            self._objects.check_room(made)
            return made if is_dry_run else await self._objects.put(made)

    def _made(
        self,
        place: ObjectPlace,
        asked: AskedObject,
        live: CustomObject | None,
        identity: Identity,
    ) -> CustomObject:
        is_new = live is None
        if live is None:
            live = CustomObject(
                *(place.kind, place.namespace, place.name),
                uid=str(uuid.uuid4()),
                version=0,
                generation=0,
                created=self._now(),
            )
        is_changed = is_new or asked.spec != live.spec
        return dataclasses.replace(
            live,
            spec=asked.spec,
            labels=asked.labels,
            annotations=asked.annotations,
            generation=live.generation + is_changed,
            maker=(identity.principal or "") if is_changed else live.maker,
        )

    @staticmethod
    def _check_unchanged(place: ObjectPlace, live: CustomObject, now: CustomObject | None) -> None:
        """Refuse a change if the object that it is based on has changed, except for its status."""
        if (
            now is None
            or dataclasses.replace(now, status=live.status, version=live.version) != live
        ):
            raise ObjectConflict(
                f"Operation cannot be fulfilled on {place.kind.plural}.{place.kind.group} "
                f"{place.name!r}: the object has been modified; please apply your changes to the "
                "latest version and try again",
                **details_of(place.kind, place.name),
            )

    def _now(self) -> str:
        return rfc3339(self._wall_clock())
