"""ApiServer: the requests to a cluster's API server, and what their answers mean."""

from __future__ import annotations

import json
import math
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Final

import aiohttp

from partway.gateway.cluster.answers import (
    AnswerTooLarge,
    ClusterAway,
    ClusterObject,
    Collection,
    NoSuchObject,
    ObjectList,
    WatchBroken,
    WatchEvent,
    event_of,
    refusal,
)
from partway.gateway.cluster.api_connection import ApiConnection, body_of
from partway.gateway.cluster.cluster_settings import ClusterSettings
from partway.gateway.cluster.limits import (
    MAX_EVENT,
    MAX_LIST,
    MAX_PAGES,
    MAX_SHOWN,
    PAGE_OBJECTS,
    PAGE_OBJECTS_IF_LARGE,
    REQUEST_TIMEOUT,
    WATCH_LIFETIME,
    WATCH_MARGIN,
    WATCH_SILENCE,
)
from partway.gateway.plain_text import cut, safe
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit

#: Bodies of PATCH: members replace members, null removes one (RFC 7396).
_MERGE_PATCH: Final = "application/merge-patch+json"


class ApiServer:
    """A cluster's API server. Made in a running loop; closed by :meth:`aclose`.

    All methods raise :class:`ClusterAway` and :class:`ClusterRefusal`. No change is sent twice,
    except that the API server has refused its token.

    Args:
        check_write: called before each change is sent, and returns the seconds in which the change
            must be answered. An error that it raises prevents the change.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        clock: Clock,
        check_write: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self.settings = settings
        self._check_write = check_write
        self._clock = clock
        self._connection = ApiConnection(settings, clock)

    async def aclose(self) -> None:
        await self._connection.aclose()

    # --- Objects ---------------------------------------------------------------------------------

    async def get(
        self, collection: Collection, name: str, *, seconds: float = REQUEST_TIMEOUT
    ) -> ClusterObject:
        return await self._asked("GET", collection.path_of(name), seconds=seconds)

    async def list(self, collection: Collection) -> ObjectList:
        """Return all objects of a collection, however many pages they are on.

        Raises:
            VersionForgotten: the list took too long; list again.
        """
        with suppress(AnswerTooLarge):  # the pages of one list have one size
            return await self._listed(collection, PAGE_OBJECTS)
        return await self._listed(collection, PAGE_OBJECTS_IF_LARGE)

    async def _listed(self, collection: Collection, page_objects: int) -> ObjectList:
        query = _selection(collection) | {"limit": str(page_objects)}
        objects, room = list[ClusterObject](), MAX_LIST
        for _ in range(MAX_PAGES):
            data = await self._answer("GET", collection.path, query=query)
            room -= len(data)
            if room < 0:
                raise ClusterAway(
                    f"GET {collection.path}: the list has more than {MAX_LIST} bytes, which is the "
                    "limit"
                )
            with self._connection.understood(f"GET {collection.path}"):
                page = json.loads(data)
                objects += page["items"] or ()
                following = page["metadata"].get("continue")
                version = str(page["metadata"]["resourceVersion"])
            if not following:
                return ObjectList(objects, version)
            query["continue"] = following
        raise ClusterAway(
            f"GET {collection.path}: the list has more than {page_objects * MAX_PAGES} objects, "
            "which is the limit"
        )

    async def create(
        self, collection: Collection, made: ClusterObject, *, seconds: float = REQUEST_TIMEOUT
    ) -> ClusterObject:
        """Create an object, and return it as the server has it.

        Raises:
            WriteConflict: an object of this name exists.
        """
        return await self._asked("POST", collection.path, made, seconds=seconds)

    async def patch(
        self,
        collection: Collection,
        name: str,
        changes: Mapping[str, Any],
        *,
        subresource: str = "",
    ) -> ClusterObject:
        """Change members of an object, and return it; a member that is None is removed.

        Args:
            changes: with ``metadata.resourceVersion`` if no one else may have changed the object.
            subresource: such as ``status``, if the change is about a part that is apart.

        Raises:
            WriteConflict: the object has changed.
        """
        path = collection.path_of(name, subresource)
        return await self._asked("PATCH", path, changes, kind=_MERGE_PATCH)

    async def replace(
        self,
        collection: Collection,
        name: str,
        made: ClusterObject,
        *,
        seconds: float = REQUEST_TIMEOUT,
    ) -> ClusterObject:
        """Replace an object, and return it.

        Args:
            made: the whole object, with the ``resourceVersion`` that is to be replaced.

        Raises:
            WriteConflict: the object has changed.
        """
        return await self._asked("PUT", collection.path_of(name), made, seconds=seconds)

    async def delete(
        self, collection: Collection, name: str, *, uid: str = "", version: str = ""
    ) -> ClusterObject:
        """Begin to delete an object.

        Args:
            uid: that of the object which is meant; empty for any.
            version: the ``resourceVersion`` likewise.

        Raises:
            WriteConflict: the object has another uid or version.
        """
        given = {"uid": uid, "resourceVersion": version}
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {key: value for key, value in given.items() if value},
        }
        return await self._asked("DELETE", collection.path_of(name), body)

    @asynccontextmanager
    async def watch(
        self, collection: Collection, version: str
    ) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        """Follow a collection's changes since a version; begins when the server has begun.

        ::

            async with server.watch(collection, version) as events:
                async for event in events: ...

        The events end when the server ends the watch, or is silent for long: watch on from the last
        event's version.

        Raises:
            VersionForgotten: the server has forgotten the changes since the version.
        """
        lifetime = WATCH_LIFETIME * random.uniform(1, 2)  # noqa: S311 (no secret)
        query = _selection(collection) | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(int(lifetime)),
        }
        asked = f"watch of {collection.path}"
        with self._connection.understood(asked):
            async with self._connection.limited(asked, REQUEST_TIMEOUT):
                answer = await self._connection.send("GET", collection.path, query)
                if answer.status != 200:
                    async with answer:
                        data = await body_of(asked, answer)
                    raise refusal(asked, answer.status, _json_or_none(data))
        until = self._clock.time() + lifetime + WATCH_MARGIN
        try:
            async with aclosing(self._events(asked, answer, until)) as events:
                yield events
        finally:
            answer.close()

    async def versions(self, group: str) -> tuple[str, ...]:
        """Return the versions of an API group that the server has, the preferred one first.

        The result is empty if the server does not have the group.
        """
        path = f"/apis/{group}"
        try:
            found = await self._asked("GET", path)
        except NoSuchObject:
            return ()
        with self._connection.understood(f"GET {path}"):
            return tuple(str(each["version"]) for each in found["versions"])

    async def release(self) -> tuple[int, int]:
        """Return the server's version of Kubernetes, such as (1, 30)."""
        path = "/version"
        found = await self._asked("GET", path)
        with self._connection.understood(f"GET {path}"):
            # Some providers write "30+".
            major, minor = (str(found[each]).rstrip("+") for each in ("major", "minor"))
            return int(major), int(minor)

    # --- Answers ---------------------------------------------------------------------------------

    async def _asked(
        self,
        method: str,
        path: str,
        body: ClusterObject | None = None,
        *,
        kind: str = "application/json",
        seconds: float = REQUEST_TIMEOUT,
    ) -> dict[str, Any]:
        """Return the object that a successful answer has."""
        data = await self._answer(method, path, body, kind=kind, seconds=seconds)
        with self._connection.understood(f"{method} {path}"):
            found = json.loads(data)
            if not isinstance(found, dict):
                raise TypeError("the answer must be an object")
            return found

    async def _answer(
        self,
        method: str,
        path: str,
        body: ClusterObject | None = None,
        *,
        query: Mapping[str, str] | None = None,
        kind: str = "application/json",
        seconds: float = REQUEST_TIMEOUT,
    ) -> bytes:
        """Return the body of a successful answer."""
        asked = f"{method} {path}"
        if method != "GET":
            seconds = min(seconds, self._check_write())
        with self._connection.understood(asked):
            async with self._connection.limited(asked, seconds):
                answer = await self._connection.send(method, path, query, body, kind)
                async with answer:
                    data = await body_of(asked, answer)
            if not 200 <= answer.status < 300:
                raise refusal(asked, answer.status, _json_or_none(data))
            return data

    async def _events(
        self, asked: str, answer: aiohttp.ClientResponse, until: float
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield the events of a watch, one line each, in bounded memory and for a limited time."""
        line = bytearray()
        silent_at = self._clock.time() + WATCH_SILENCE
        while data := await self._more(asked, answer, min(until, silent_at)):
            first, *others = data.split(b"\n")
            line += first
            if len(line) > MAX_EVENT:
                raise WatchBroken(f"{asked}: an event has more than {MAX_EVENT} bytes")
            for each in others:
                yield _event(asked, line)
                line = bytearray(each)
            if others:
                silent_at = self._clock.time() + WATCH_SILENCE

    async def _more(self, asked: str, answer: aiohttp.ClientResponse, until: float) -> bytes:
        """Return the next bytes of a watch; none once it is over, or its time is."""
        left = until - self._clock.time()
        if left <= 0:
            return b""
        with self._connection.understood(asked):
            try:
                async with time_limit(self._clock, left):
                    return await answer.content.readany()
            except TimeoutError:
                return b""


def _selection(collection: Collection) -> dict[str, str]:
    return {"labelSelector": collection.labels} if collection.labels else {}


def _json_or_none(data: bytes) -> object:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _event(asked: str, line: bytearray) -> WatchEvent:
    try:
        return event_of(asked, json.loads(line))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WatchBroken(
            f"{asked}: an event cannot be read: {cut(safe(repr(error)), MAX_SHOWN)}"
        ) from error
