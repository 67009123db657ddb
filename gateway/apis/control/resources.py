"""Resources of the API as values, kept in memory and in a store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, TypeAlias

from partway.gateway.apis.control.limits import CHANGE_WAIT_TIMEOUT
from partway.gateway.storage.store.store import Record, Removal, Store, StoreError, StoreUnavailable
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import held_in_time

_MAKER: Final = "made_by"

#: The kinds of resources, as in their ARNs.
Kind: TypeAlias = Literal["model", "endpoint-config", "endpoint", "transform-job"]

KINDS: tuple[Kind, ...] = ("model", "endpoint-config", "endpoint", "transform-job")


def kept_of_maker(principal: str | None) -> Mapping[str, Any]:
    """Return the kept members of a new resource; empty without authentication."""
    return {} if principal is None else {_MAKER: principal}


def maker_of(kept: Mapping[str, Any]) -> str:
    """Return the name of the principal that made a resource; empty if unknown."""
    maker: str = kept.get(_MAKER, "")
    return maker


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of the API.

    Attributes:
        name: the name as its creator wrote it; unique within the kind, regardless of case.
        created: the time of the creation, in epoch seconds.
        modified: the time of the last change, in epoch seconds.
        members: the members that were asked for, by the API's names; may hold secrets.
        kept: the gateway's own notes; may hold secrets.
    """

    kind: Kind
    name: str
    created: float
    modified: float
    members: Mapping[str, Any] = field(default_factory=dict, repr=False)
    tags: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, Any] = field(default_factory=dict, repr=False)


#: The fields of a resource that a record's body holds.
_MEMBERS: Final = frozenset({each.name for each in fields(Resource)} - {"kind", "name"})


class Resources:
    """All resources of a gateway.

    The resources in memory match the store: a change is stored before it is visible.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._clock = clock
        self._store = store
        self._known: dict[Kind, dict[str, Resource]] = {kind: {} for kind in KINDS}
        self._unread = ""
        self._changing = asyncio.Lock()

    async def load(self) -> None:
        """Read the stored resources; call this first, and again if the disk refuses.

        Raises:
            StoreUnavailable: the disk refuses now; :meth:`check_read` refuses until then.
            StoreError: the store cannot be read, or a newer version of the gateway has written to
                it.
        """
        try:
            for kind in KINDS:
                for record in await self._store.records(kind):
                    self._known[kind][record.name.lower()] = _resource_of(kind, record)
        except StoreUnavailable as error:
            self._unread = str(error)
            raise
        self._unread = ""

    def check_read(self) -> None:
        """Raise StoreUnavailable until the disk has given the stored resources."""
        if self._unread:
            raise StoreUnavailable(self._unread)

    def find(self, kind: Kind, name: str) -> Resource | None:
        """Return a resource by kind and name, regardless of case; None if it does not exist."""
        return self._known[kind].get(name.lower())

    def all(self, kind: Kind) -> Iterable[Resource]:
        """Return all resources of a kind, in no particular order."""
        return self._known[kind].values()

    def changing(self) -> AbstractAsyncContextManager[None]:
        """Keep other changes out until the block of ``async with`` ends.

        A check inside the block therefore stays true until the block ends.

        Raises:
            StoreError: earlier changes take too long, as on a disk that hangs.
        """
        return held_in_time(self._changing, self._clock, CHANGE_WAIT_TIMEOUT, _not_written)

    async def put(self, resource: Resource) -> None:
        """Store a resource; it replaces the one of its name.

        Call this inside :meth:`changing`.

        Raises:
            StoreError: the resource cannot be stored; the earlier one still exists.
        """
        await self._store.write(_record_of(resource))
        self._known[resource.kind][resource.name.lower()] = resource

    async def delete(self, resource: Resource) -> None:
        """Remove a resource.

        Call this inside :meth:`changing`.

        Raises:
            StoreError: the removal cannot be stored; the resource still exists.
        """
        await self._store.write(Removal(resource.kind, resource.name))
        self._known[resource.kind].pop(resource.name.lower(), None)


def _not_written() -> StoreError:
    return StoreError(
        f"earlier changes have not been stored within {CHANGE_WAIT_TIMEOUT:g} s; look at the "
        "disk of the store, or at the server of its file system"
    )


def _record_of(resource: Resource) -> Record:
    body = {
        "created": resource.created,
        "modified": resource.modified,
        "members": dict(resource.members),
        "tags": dict(resource.tags),
        "kept": dict(resource.kept),
    }
    return Record(resource.kind, resource.name, body)


def _resource_of(kind: Kind, record: Record) -> Resource:
    unknown = record.body.keys() - _MEMBERS
    if unknown:
        names = ", ".join(sorted(unknown))
        raise StoreError(
            f"the {kind} {record.name!r} in the store has members that this version of partway "
            f"does not know ({names}); a newer version has written them, so start that version "
            "again. Nothing was changed"
        )
    return Resource(kind, record.name, **record.body)
