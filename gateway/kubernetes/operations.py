"""What is done with objects, whatever HTTP it is asked by: get, list, create, change, delete."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from partway.gateway.access.authentication import Identity
from partway.gateway.control.model_data_leave import check_may_read
from partway.gateway.kubernetes.admission import AskedObject, asked_object, details_of
from partway.gateway.kubernetes.controller import rfc3339
from partway.gateway.kubernetes.custom_object import CustomObject
from partway.gateway.kubernetes.errors import ObjectConflict, ObjectExists, ObjectNotFound
from partway.gateway.kubernetes.field_owners import (
    APPLY,
    UPDATE,
    FieldManager,
    applied,
    body_of,
    conflicts,
    fields_of,
    managers_of,
    shown_managers,
    updated,
)
from partway.gateway.kubernetes.kinds import DEPLOYED_MODEL, ENDPOINT, CustomKind
from partway.gateway.kubernetes.leave import ObjectLeave, Verb
from partway.gateway.kubernetes.objects import CustomObjects
from partway.gateway.kubernetes.patches import merged
from partway.gateway.kubernetes.rules import ObjectRules
from partway.gateway.kubernetes.wanted import endpoint_of, model_members, shares_of

#: Does a change to its end, also where its caller is cancelled.
Unbroken: TypeAlias = Callable[[Coroutine[Any, Any, CustomObject]], Awaitable[CustomObject]]


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """Which object a request is about.

    Attributes:
        kind: its kind.
        namespace: where it is.
        name: its name; empty where the body says it.
    """

    kind: CustomKind
    namespace: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks for a change, and how.

    Attributes:
        identity: who.
        manager: whose the fields are that they set.
        is_dry_run: whether nothing is to be written.
    """

    identity: Identity
    manager: str
    is_dry_run: bool = False


class ObjectOperations:
    """The operations on objects.

    Args:
        objects: those that there are.
        rules: what they must be beside one another.
        leave: who may do what.
        wall_clock: returns epoch seconds.
        unbroken: has what is written down seen too, though its client has left meanwhile.
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
        """An object.

        Raises:
            AccessDenied: who asks may not see it.
            ObjectNotFound: there is none.
        """
        self._leave.check(identity, "get", place.kind, place.name)
        return self._existing(place)

    async def create(self, place: ObjectPlace, body: Mapping[str, Any], who: Asker) -> CustomObject:
        """Make an object."""
        asked = asked_object(place.kind, place.namespace, body)
        named = dataclasses.replace(place, name=asked.name)
        return await self._write(named, asked, who, None, self._updating(named, None, asked, who))

    async def replace(
        self, place: ObjectPlace, body: Mapping[str, Any], who: Asker
    ) -> CustomObject:
        """Have an object be what the body says."""
        self._leave.check(who.identity, "get", place.kind, place.name)
        live = self._existing(place)
        asked = asked_object(place.kind, place.namespace, body, place.name)
        asked.check_is_of(live)
        return await self._write(place, asked, who, live, self._updating(place, live, asked, who))

    async def patch(self, place: ObjectPlace, patch: Mapping[str, Any], who: Asker) -> CustomObject:
        """Change an object by a merge patch."""
        self._leave.check(who.identity, "get", place.kind, place.name)
        live = self._existing(place)
        body = merged(live.shown(), patch)
        asked = asked_object(place.kind, place.namespace, body, place.name)
        asked.check_is_of(live)
        return await self._write(place, asked, who, live, self._updating(place, live, asked, who))

    async def apply(
        self, place: ObjectPlace, body: Mapping[str, Any], who: Asker, *, force: bool
    ) -> tuple[CustomObject, bool]:
        """Apply on the server's side: what a manager says of an object, beside what others say.

        Args:
            place: the object's.
            body: what is applied; fields that the manager has left out since are taken away.
            who: the manager.
            force: whether what is another manager's is taken over.

        Returns:
            The object, and whether it is new.

        Raises:
            ObjectConflict: others have set fields otherwise.
        """
        self._leave.check(who.identity, "get", place.kind, place.name)
        live = self._objects.find(place.kind, place.namespace, place.name)
        managers = managers_of(live.managed) if live else []
        before = fields_of(live.shown()) if live else {}
        own = fields_of(body)
        if not force:
            _check_conflicts(conflicts(managers, before, own, who.manager))
        fields, managers = applied(managers, before, own, self._manager(place, who, APPLY))
        metadata = {"name": place.name, **body.get("metadata", {})}
        for name in ("labels", "annotations", "managedFields"):
            metadata.pop(name, None)
        made = body_of(fields)
        whole = {
            **{key: value for key, value in body.items() if key != "spec"},
            "metadata": {**metadata, **made.get("metadata", {})},
            "spec": made.get("spec", {}),
        }
        asked = asked_object(place.kind, place.namespace, whole, place.name)
        if live is not None:
            asked.check_is_of(live)
        managed = shown_managers(managers)
        return await self._write(place, asked, who, live, managed), live is None

    async def delete(
        self, place: ObjectPlace, preconditions: Mapping[str, Any], who: Asker
    ) -> CustomObject:
        """Have an object go; it is gone once what it stands for is."""
        self._leave.check(who.identity, "get", place.kind, place.name)
        live = self._existing(place)
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
        """Note that an object goes."""
        async with self._objects.changing():
            live = self._existing(place)
            if live.deleting:
                return live
            going = dataclasses.replace(live, deleting=self._now(), generation=live.generation + 1)
            return await self._objects.put(going)

    # --- What there is ---------------------------------------------------------------------------

    def _existing(self, place: ObjectPlace) -> CustomObject:
        found = self._objects.find(place.kind, place.namespace, place.name)
        if found is None:
            raise ObjectNotFound(
                f'{place.kind.plural}.{place.kind.group} "{place.name}" not found',
                **details_of(place.kind, place.name),
            )
        return found

    def _updating(
        self, place: ObjectPlace, live: CustomObject | None, asked: AskedObject, who: Asker
    ) -> tuple[Mapping[str, Any], ...]:
        """The managers behind a change that is no application."""
        managed = live.managed if live else ()
        if live is not None and asked.managed is not None and asked.managed != live.managed:
            return shown_managers(managers_of(asked.managed))  # kubectl says it anew, once
        after = fields_of(
            {
                "metadata": {"labels": asked.labels, "annotations": asked.annotations},
                "spec": asked.spec,
            }
        )
        before = fields_of(live.shown()) if live else {}
        manager = self._manager(place, who, UPDATE)
        return shown_managers(updated(managers_of(managed), before, after, manager))

    def _manager(self, place: ObjectPlace, who: Asker, operation: str) -> FieldManager:
        version = place.kind.api_version
        return FieldManager(who.manager, operation, version, self._now(), frozenset())

    async def _write(
        self,
        place: ObjectPlace,
        asked: AskedObject,
        who: Asker,
        live: CustomObject | None,
        managed: tuple[Mapping[str, Any], ...],
    ) -> CustomObject:
        """Make an object what is asked for.

        Args:
            place: the object's.
            asked: what it is to be.
            who: asks.
            live: what that was made of; None if there was none.
            managed: whose its fields are then.

        Raises:
            ApiError: it cannot be so, or was changed meanwhile.
        """
        made = self._made(place, asked, live, managed, who.identity)
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
        """The names of the DeployedModels that an Endpoint has run."""
        if made.kind is not ENDPOINT:
            return ()
        own = self._objects.of_endpoint(DEPLOYED_MODEL, endpoint_of(made))
        return dict.fromkeys([*shares_of(made.spec), *(each.name for each in own)])

    async def _put(
        self, place: ObjectPlace, made: CustomObject, live: CustomObject | None, *, is_dry_run: bool
    ) -> CustomObject:
        """Put an object in the place of what it was made of, if that is still there."""
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
                made = dataclasses.replace(made, status=now.status)
                if _is_same(made, now):
                    return now
            self._rules.check_place(made, now)
            self._objects.check_room(made)
            return made if is_dry_run else await self._objects.put(made)

    def _made(
        self,
        place: ObjectPlace,
        asked: AskedObject,
        live: CustomObject | None,
        managed: tuple[Mapping[str, Any], ...],
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
            managed=managed,
            generation=live.generation + is_changed,
            maker=(identity.principal or "") if is_changed else live.maker,
        )

    @staticmethod
    def _check_unchanged(place: ObjectPlace, live: CustomObject, now: CustomObject | None) -> None:
        """Refuse what was made of an object that is another one now, but for its status."""
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


def _is_same(made: CustomObject, now: CustomObject) -> bool:
    """Whether nothing is changed but when who has set what."""
    return dataclasses.replace(made, version=now.version, managed=now.managed) == now and [
        dataclasses.replace(each, time="") for each in managers_of(made.managed)
    ] == [dataclasses.replace(each, time="") for each in managers_of(now.managed)]


def _check_conflicts(found: list[tuple[tuple[str, ...], FieldManager]]) -> None:
    if not found:
        return
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f'conflict with "{each.name}" using {each.api_version}',
            "field": "." + ".".join(path),
        }
        for path, each in found[:16]
    ]
    plural = "" if len(causes) == 1 else "s"
    said = "\n".join(f"- {each['field']}" for each in causes)
    by = causes[0]["message"].removeprefix("conflict ")
    where = f": {causes[0]['field']}" if len(causes) == 1 else f":\n{said}"
    raise ObjectConflict(
        f"Apply failed with {len(causes)} conflict{plural}: conflict{plural} {by}{where}",
        causes=causes,
    )
