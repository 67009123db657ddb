"""All objects, in memory and in the store, with one sequence of versions for all changes."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Final

from partway.gateway.apis.control.errors import NotWrittenDown
from partway.gateway.apis.control.limits import CHANGE_WAIT_TIMEOUT
from partway.gateway.apis.kubernetes.change_history import History
from partway.gateway.apis.kubernetes.custom_object import KINDS, CustomKind, CustomObject
from partway.gateway.apis.kubernetes.endpoint_rules import endpoint_of
from partway.gateway.apis.kubernetes.errors import InvalidObject, TooManyRequests
from partway.gateway.apis.kubernetes.limits import MAX_OBJECT_BYTES, MAX_OBJECTS
from partway.gateway.storage.store.store import Record, Removal, Store, StoreError
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import held_in_time

#: Prefix of the kinds of records.
_RECORDS: Final = "kubernetes-"


class CustomObjects:
    """All objects of a gateway.

    The objects in memory match the store: a change is stored before it is visible.

    Attributes:
        history: the latest changes, in order.
        on_change: called with each changed or deleted object, and the object before the change.

    Args:
        wall_clock: returns epoch seconds; versions start from there, so that none is used twice.
    """

    def __init__(self, store: Store, clock: Clock, wall_clock: Callable[[], float]) -> None:
        self.history = History(int(wall_clock() * 1000))
        self.on_change: Callable[[CustomObject, CustomObject | None], object] = lambda *_: None
        self._store = store
        self._clock = clock
        self._known: dict[CustomKind, dict[tuple[str, str], CustomObject]] = {
            kind: {} for kind in KINDS
        }
        #: The same objects by the names of their endpoints, for fast lookup: each endpoint has a
        #: few of thousands.
        self._of_endpoints: dict[CustomKind, dict[str, dict[tuple[str, str], CustomObject]]] = {
            kind: {} for kind in KINDS
        }
        self._changing = asyncio.Lock()

    async def load(self) -> None:
        """Read the stored objects; call this first.

        Raises:
            StoreError: the objects cannot be read; this may be called again.
        """
        latest = self.history.latest
        for kind in KINDS:
            for record in await self._store.records(_RECORDS + kind.kind):
                found = CustomObject(kind, **record.body)
                self._keep(found)
                latest = max(latest, found.version)
        self.history.begin(latest)

    def find(self, kind: CustomKind, namespace: str, name: str) -> CustomObject | None:
        """Return the object of a kind, namespace and name; None if it does not exist."""
        return self._known[kind].get((namespace, name))

    def all(self, kind: CustomKind) -> Iterable[CustomObject]:
        """Return all objects of a kind, in no particular order."""
        return self._known[kind].values()

    def of_endpoint(self, kind: CustomKind, name: str) -> Collection[CustomObject]:
        """Return the objects of a kind that belong to an endpoint, in no particular order."""
        return self._of_endpoints[kind].get(name, {}).values()

    def at(self, kind: CustomKind, version: int) -> Collection[CustomObject]:
        """Return all objects of a kind as of a version, in no particular order.

        Raises:
            VersionExpired: the changes since the version are forgotten.
        """
        now = self._known[kind]
        behind = [each for each in self.history.since(version) if each.changed.kind is kind]
        if not behind:
            return now.values()
        # An object's state at the version is its state before its first later change.
        before = {each.changed.key: each.before for each in reversed(behind)}
        return [each for each in {**now, **before}.values() if each is not None]

    def changing(self) -> AbstractAsyncContextManager[None]:
        """Keep other changes out until the block of ``async with`` ends.

        Raises:
            NotWrittenDown: earlier changes take too long, as on a disk that hangs.
        """
        return held_in_time(self._changing, self._clock, CHANGE_WAIT_TIMEOUT, _not_written)

    def check_room(self, made: CustomObject) -> None:
        """Refuse an object that is too large, or exceeds the number of objects.

        Raises:
            InvalidObject: it is too large.
            TooManyRequests: the limit of objects is reached.
        """
        size = len(json.dumps(made.shown()))
        if size > MAX_OBJECT_BYTES:
            raise InvalidObject(
                f"{made.kind.kind} {made.name} has {size} bytes as JSON, with its annotations; it "
                f"must have at most {MAX_OBJECT_BYTES}"
            )
        known = self._known[made.kind]
        if made.key not in known and len(known) >= MAX_OBJECTS:
            raise TooManyRequests(
                f"there are already {MAX_OBJECTS} objects of the kind {made.kind.kind}, which "
                "is the limit; delete unneeded ones"
            )

    async def put(self, changed: CustomObject) -> CustomObject:
        """Store an object with the version of this change, and return it.

        Call this inside :meth:`changing`.

        Raises:
            NotWrittenDown: the object cannot be stored; the earlier one still exists.
        """
        before = self.find(changed.kind, *changed.key)
        made = dataclasses.replace(changed, version=self.history.latest + 1)
        await self._write(_record_of(made))
        if before is not None:
            self._drop(before)
        self._keep(made)
        self.history.add("ADDED" if before is None else "MODIFIED", made, before)
        self.on_change(made, before)
        return made

    async def remove(self, gone: CustomObject) -> CustomObject:
        """Remove an object, and return it with the version of this change.

        Call this inside :meth:`changing`.

        Raises:
            NotWrittenDown: the removal cannot be stored; the object still exists.
        """
        await self._write(Removal(_RECORDS + gone.kind.kind, "/".join(gone.key)))
        self._drop(gone)
        last = dataclasses.replace(gone, version=self.history.latest + 1)
        self.history.add("DELETED", last, gone)
        self.on_change(last, gone)
        return last

    def _keep(self, made: CustomObject) -> None:
        self._known[made.kind][made.key] = made
        self._of_endpoints[made.kind].setdefault(endpoint_of(made), {})[made.key] = made

    def _drop(self, gone: CustomObject) -> None:
        self._known[gone.kind].pop(gone.key, None)
        of_endpoints, name = self._of_endpoints[gone.kind], endpoint_of(gone)
        others = of_endpoints.get(name, {})
        others.pop(gone.key, None)
        if not others:
            of_endpoints.pop(name, None)

    async def _write(self, change: Record | Removal) -> None:
        try:
            await self._store.write(change)
        except StoreError as error:
            raise NotWrittenDown(str(error)) from error


def _not_written() -> NotWrittenDown:
    return NotWrittenDown(f"earlier changes have not been stored within {CHANGE_WAIT_TIMEOUT:g} s")


def _record_of(made: CustomObject) -> Record:
    body = {each.name: getattr(made, each.name) for each in dataclasses.fields(made)}
    del body["kind"]
    return Record(_RECORDS + made.kind.kind, "/".join(made.key), body)
