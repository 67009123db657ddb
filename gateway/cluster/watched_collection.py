"""WatchedCollection: the objects of a collection, listed once and then watched."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from partway.gateway.cluster.answers import (
    ClusterError,
    ClusterObject,
    Collection,
    VersionForgotten,
    WatchBroken,
    WatchEvent,
)
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.limits import RETRY_LONGEST, RETRY_SHORTEST
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import pause
from partway.log_lines import LogLine

log = logging.getLogger("partway.cluster")


class ObjectKey(NamedTuple):
    """The place of an object in its collection.

    Attributes:
        namespace: empty for kinds without namespaces.
    """

    namespace: str
    name: str


#: Called with an object's key, and the object now and before; None where it does not exist.
OnChange = Callable[[ObjectKey, ClusterObject | None, ClusterObject | None], object]


def key_of(found: ClusterObject) -> ObjectKey:
    metadata = found["metadata"]
    return ObjectKey(metadata.get("namespace", ""), metadata["name"])


class WatchedCollection:
    """A copy of a collection that follows the API server.

    While the server is away, the last copy stays. Afterwards only the differences are told.

    Args:
        on_change: called for each object that comes, changes or goes, those of the first list
            included. It must not raise.

    Attributes:
        objects: as they were last seen.
        listed: set once the first list is complete, and told.
        trouble: why the copy may be old; empty while a watch runs.
        away_at: when the server was last away, by the clock.
    """

    def __init__(
        self, server: ApiServer, collection: Collection, clock: Clock, on_change: OnChange
    ) -> None:
        self.collection = collection
        self.listed = asyncio.Event()
        self.trouble = "the collection has not been listed yet"
        self.away_at = -math.inf
        self._server = server
        self._clock = clock
        self._on_change = on_change
        self._objects: dict[ObjectKey, ClusterObject] = {}
        self._version = ""
        self._wait = RETRY_SHORTEST
        self._task: asyncio.Task[None] | None = None

    @property
    def objects(self) -> Mapping[ObjectKey, ClusterObject]:
        return MappingProxyType(self._objects)

    def start(self) -> None:
        """List and watch until :meth:`aclose`."""
        name = f"watch of {self.collection.path}"
        self._task = asyncio.create_task(self._follow(), name=name)

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    def take(self, changed: ClusterObject) -> None:
        """Take an object from the answer to a write, ahead of its event.

        An answer about an object that is gone is dropped.
        """
        key = key_of(changed)
        if key in self._objects:
            self._set_newer(key, changed)

    # --- Following -------------------------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            try:
                if not self._version:
                    await self._list()
                is_alive = await self._watch()
            except (VersionForgotten, WatchBroken) as error:
                self._version = ""
                await self._pause(error)
            except ClusterError as error:
                self.away_at = self._clock.time()
                await self._pause(error)
            except Exception as error:  # an answer of a form that nobody foresaw: begin anew
                log.exception(LogLine("a watch has failed", collection=self.collection.path))
                self._version = ""
                await self._pause(WatchBroken(f"{type(error).__name__}: {error}"))
            else:
                if not is_alive:
                    await self._pause(None)

    async def _list(self) -> None:
        found = await self._server.list(self.collection)
        now = {key_of(each): each for each in found.objects}
        for key in self._objects.keys() - now.keys():
            self._set(key, None)
        for key, each in now.items():
            self._set(key, each)
        self._version = found.version
        self.listed.set()

    async def _watch(self) -> bool:
        """Follow one watch to its end; return whether it told anything."""
        is_alive = False
        async with self._server.watch(self.collection, self._version) as events:
            if self.trouble and self.listed.is_set():
                log.info(LogLine("watching a collection", collection=self.collection.path))
            self.trouble = ""
            async for event in events:
                self._apply(event)
                self._version = event.version
                self._wait = RETRY_SHORTEST
                is_alive = True
        return is_alive

    def _apply(self, event: WatchEvent) -> None:
        if event.kind in ("ADDED", "MODIFIED"):
            self._set_newer(key_of(event.object), event.object)
        elif event.kind == "DELETED":
            self._set(key_of(event.object), None)

    def _set_newer(self, key: ObjectKey, now: ClusterObject) -> None:
        """Set an object, unless the copy is newer, as after the answer to a write."""
        before = self._objects.get(key)
        if before is None or _number(before) <= _number(now):
            self._set(key, now)

    def _set(self, key: ObjectKey, now: ClusterObject | None) -> None:
        before = self._objects.get(key)
        if now is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = now
        if now is None or before is None or _version(now) != _version(before):
            self._on_change(key, now, before)

    async def _pause(self, error: ClusterError | None) -> None:
        """Wait before another try, longer each time until something comes."""
        wait, self._wait = self._wait, min(self._wait * 2, RETRY_LONGEST)
        if error is not None:
            if not self.trouble or not self.listed.is_set():
                log.warning(
                    LogLine(
                        "a collection cannot be followed; trying again",
                        collection=self.collection.path,
                        reason=str(error),
                    )
                )
            self.trouble = str(error)
        await pause(self._clock, wait * random.uniform(0.5, 1))  # noqa: S311 (no secret)


def _version(found: ClusterObject) -> object:
    return found["metadata"].get("resourceVersion")


def _number(found: ClusterObject) -> int:
    """Return a version as a number: each server that stores in etcd has numbers."""
    text = str(_version(found))
    return int(text) if text.isdecimal() else 0
