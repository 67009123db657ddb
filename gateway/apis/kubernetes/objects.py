"""All objects, kept in memory and in the store, and the order of all changes of them."""

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
from partway.gateway.apis.kubernetes.deployment_from_spec import endpoint_of
from partway.gateway.apis.kubernetes.errors import InvalidObject, TooManyRequests
from partway.gateway.apis.kubernetes.limits import MAX_OBJECT_BYTES, MAX_OBJECTS
from partway.gateway.storage.store.store import Record, Removal, Store, StoreError
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import held_in_time

#: What a record's kind begins with.
_RECORDS: Final = "kubernetes-"


class CustomObjects:
    """All objects of a gateway.

    What it says is what the store has: a change is written down before it is seen.

    Attributes:
        history: the last changes, in their order.
        on_change: told each object that has been changed or is gone, and what it was before.

    Args:
        store: where they are written down.
        clock: measures how long a change waits for those before it.
        wall_clock: returns epoch seconds: versions go on from there, so that none comes twice.
    """

    def __init__(self, store: Store, clock: Clock, wall_clock: Callable[[], float]) -> None:
        self.history = History(int(wall_clock() * 1000))
        self.on_change: Callable[[CustomObject, CustomObject | None], object] = lambda *_: None
        self._store = store
        self._clock = clock
        self._known: dict[CustomKind, dict[tuple[str, str], CustomObject]] = {
            kind: {} for kind in KINDS
        }
        #: The same by their endpoints' names: each has a few, and there are thousands of both.
        self._of_endpoints: dict[CustomKind, dict[str, dict[tuple[str, str], CustomObject]]] = {
            kind: {} for kind in KINDS
        }
        self._changing = asyncio.Lock()

    async def load(self) -> None:
        """Read what the store has; called before anything else.

        Raises:
            StoreError: it cannot be read; this may be called again.
        """
        latest = self.history.latest
        for kind in KINDS:
            for record in await self._store.records(_RECORDS + kind.kind):
                found = CustomObject(kind, **record.body)
                self._keep(found)
                latest = max(latest, found.version)
        self.history.begin(latest)

    def find(self, kind: CustomKind, namespace: str, name: str) -> CustomObject | None:
        """The object of that kind and name, if there is one."""
        return self._known[kind].get((namespace, name))

    def all(self, kind: CustomKind) -> Iterable[CustomObject]:
        """All objects of a kind, in no particular order."""
        return self._known[kind].values()

    def of_endpoint(self, kind: CustomKind, name: str) -> Collection[CustomObject]:
        """The objects of a kind that are about an endpoint, in no particular order."""
        return self._of_endpoints[kind].get(name, {}).values()

    def at(self, kind: CustomKind, version: int) -> Collection[CustomObject]:
        """All objects of a kind as they were at a version, in no particular order.

        Raises:
            VersionExpired: what has changed since then is not known any more.
        """
        now = self._known[kind]
        behind = [each for each in self.history.since(version) if each.changed.kind is kind]
        if not behind:
            return now.values()
        # What an object was before the first of its changes is what it was then.
        before = {each.changed.key: each.before for each in reversed(behind)}
        return [each for each in {**now, **before}.values() if each is not None]

    def changing(self) -> AbstractAsyncContextManager[None]:
        """Keep others from changing anything meanwhile.

        Raises:
            NotWrittenDown: it is not its turn in time: a disk hangs, on which others write.
        """
        return held_in_time(self._changing, self._clock, CHANGE_WAIT_TIMEOUT, _not_written)

    def check_room(self, made: CustomObject) -> None:
        """Refuse an object that is too large, or one too many.

        Raises:
            InvalidObject: it is too large.
            TooManyRequests: there are as many as there may be.
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
                f"there are {MAX_OBJECTS} objects of the kind {made.kind.kind}, as many as there "
                "may be; delete what is not needed any more"
            )

    async def put(self, changed: CustomObject) -> CustomObject:
        """Write an object down, with the version of this change, and return it.

        Called inside :meth:`changing`.

        Raises:
            NotWrittenDown: it cannot be written; what was there before is still there.
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

        Called inside :meth:`changing`.

        Raises:
            NotWrittenDown: that cannot be written; it is still there.
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
    return NotWrittenDown(
        f"the changes before this one have not been written for {CHANGE_WAIT_TIMEOUT:g} s"
    )


def _record_of(made: CustomObject) -> Record:
    body = {each.name: getattr(made, each.name) for each in dataclasses.fields(made)}
    del body["kind"]
    return Record(_RECORDS + made.kind.kind, "/".join(made.key), body)
