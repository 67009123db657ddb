"""ObjectStore: the objects that the controller reads, and whose statuses it writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from partway.gateway.apis.kubernetes.custom_object import CustomKind, CustomObject


class ObjectStore(Protocol):
    """All objects, in memory.

    There are two: the gateway's own (:class:`~partway.gateway.apis.kubernetes.objects.
    CustomObjects`), and a copy of a cluster's (:mod:`partway.gateway.operator.cluster_objects`).

    Attributes:
        on_change: called with each changed or deleted object, and the object before the change.
    """

    on_change: Callable[[CustomObject, CustomObject | None], object]

    def find(self, kind: CustomKind, namespace: str, name: str) -> CustomObject | None:
        """Return the object of a kind, namespace and name; None if it does not exist."""

    def all(self, kind: CustomKind) -> Iterable[CustomObject]:
        """Return all objects of a kind, in no particular order."""

    def of_endpoint(self, kind: CustomKind, name: str) -> Collection[CustomObject]:
        """Return the objects of a kind that belong to an endpoint, in no particular order."""

    def changing(self) -> AbstractAsyncContextManager[None]:
        """Keep other changes of this store out until the block of ``async with`` ends.

        Raises:
            ApiError: it takes too long.
        """

    async def put(self, changed: CustomObject) -> CustomObject:
        """Store an object with another status, inside :meth:`changing`.

        Raises:
            ApiError: it cannot be stored now; a later try may succeed.
        """

    async def remove(self, gone: CustomObject) -> CustomObject:
        """Remove an object that is being deleted, inside :meth:`changing`; raises likewise."""
