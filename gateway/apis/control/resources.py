"""Models, endpoint configurations, endpoints and jobs as values, kept in memory and in a store."""

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

#: The member that keeps the principal's name.
_MAKER: Final = "made_by"


def kept_of_maker(principal: str | None) -> Mapping[str, Any]:
    """The kept members of what is new; a principal of None, without authentication, adds none."""
    return {} if principal is None else {_MAKER: principal}


def maker_of(kept: Mapping[str, Any]) -> str:
    """The principal's name; empty if it is not written down."""
    maker: str = kept.get(_MAKER, "")
    return maker


#: What there is of resources, as it is in their ARNs.
Kind: TypeAlias = Literal["model", "endpoint-config", "endpoint", "transform-job"]

KINDS: tuple[Kind, ...] = ("model", "endpoint-config", "endpoint", "transform-job")


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource that the API has made.

    Attributes:
        kind: what it is.
        name: as its creator wrote it; a kind has a name once, whatever its case.
        created: when it was made, in epoch seconds.
        modified: when it was last changed, in epoch seconds.
        members: what was asked for, by the API's names of members; may hold secrets.
        tags: its tags.
        kept: what the gateway needs to know of it besides; may hold secrets.
    """

    kind: Kind
    name: str
    created: float
    modified: float
    members: Mapping[str, Any] = field(default_factory=dict, repr=False)
    tags: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, Any] = field(default_factory=dict, repr=False)


#: Of a resource, what a record's body has.
_MEMBERS: Final = frozenset({each.name for each in fields(Resource)} - {"kind", "name"})


class Resources:
    """All resources of a gateway.

    What it says is what the store has: a change is written down before it is seen.

    Args:
        store: where they are written down.
        clock: measures how long a change waits for those before it.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._clock = clock
        self._store = store
        self._known: dict[Kind, dict[str, Resource]] = {kind: {} for kind in KINDS}
        self._unread = ""
        self._changing = asyncio.Lock()

    async def load(self) -> None:
        """Read what the store has; called before anything else, and again if the disk refuses.

        Raises:
            StoreUnavailable: the disk does not give it now; :meth:`check_read` refuses until then.
            StoreError: it cannot be read, or a newer version of the gateway has written to it.
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
        """Go on if it is known what the store has.

        Raises:
            StoreUnavailable: the disk has not given it yet.
        """
        if self._unread:
            raise StoreUnavailable(self._unread)

    def find(self, kind: Kind, name: str) -> Resource | None:
        """The resource of that kind and name, if there is one."""
        return self._known[kind].get(name.lower())

    def all(self, kind: Kind) -> Iterable[Resource]:
        """All resources of a kind, in no particular order."""
        return self._known[kind].values()

    def changing(self) -> AbstractAsyncContextManager[None]:
        """Keep others from changing anything meanwhile: what was looked at still holds then.

        Raises:
            StoreError: it is not its turn in time: a disk hangs, on which others write.
        """
        return held_in_time(self._changing, self._clock, CHANGE_WAIT_TIMEOUT, _not_written)

    async def put(self, resource: Resource) -> None:
        """Write a resource down, in the place of the one with its name, if there is one.

        Called inside :meth:`changing`.

        Raises:
            StoreError: it cannot be written; what was there before is still there.
        """
        await self._store.write(_record_of(resource))
        self._known[resource.kind][resource.name.lower()] = resource

    async def delete(self, resource: Resource) -> None:
        """Remove a resource.

        Called inside :meth:`changing`.

        Raises:
            StoreError: that cannot be written; it is still there.
        """
        await self._store.write(Removal(resource.kind, resource.name))
        self._known[resource.kind].pop(resource.name.lower(), None)


def _not_written() -> StoreError:
    return StoreError(
        f"the changes before this one have not been written for {CHANGE_WAIT_TIMEOUT:g} s; look at "
        "the disk of the store, or at the server of its file system"
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
            f"the {kind} {record.name!r} in the store has what this version of partway does not "
            f"know ({names}): a newer one has written it, and must be started again; nothing was "
            "changed"
        )
    return Resource(kind, record.name, **record.body)
