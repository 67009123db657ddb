"""ApiServer: requests to a cluster's API server.

This module imports aiohttp, so only users of a cluster import it. Clients of the whole Kubernetes
API weigh far more than the few calls that are made here.
"""

from __future__ import annotations

import json
import math
import os
import random
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any, Final

import aiohttp
from aiohttp.connector import AddrInfoType

from partway import __version__
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
from partway.gateway.cluster.cluster_settings import ClusterSettings
from partway.gateway.cluster.limits import (
    MAX_ANSWER,
    MAX_EVENT,
    MAX_LIST,
    MAX_PAGES,
    MAX_SHOWN,
    PAGE_OBJECTS,
    PAGE_OBJECTS_IF_LARGE,
    PROBE_INTERVAL,
    PROBES,
    REQUEST_TIMEOUT,
    WATCH_LIFETIME,
    WATCH_MARGIN,
    WATCH_SILENCE,
)
from partway.gateway.cluster.token_file import TokenFile
from partway.gateway.network.dialling import NO_DESCRIPTOR, client_tls
from partway.gateway.plain_text import cut, safe
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit

#: Bodies of PATCH: members replace members, null removes one (RFC 7396).
_MERGE_PATCH: Final = "application/merge-patch+json"

_UNAUTHORIZED: Final = 401


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
        self._token = TokenFile(settings.token_file, clock)
        self._tls: ssl.SSLContext | None = None
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, socket_factory=_probed_socket),
            timeout=aiohttp.ClientTimeout(),  # none of its own
            cookie_jar=aiohttp.DummyCookieJar(),
            # A compressed answer could be far larger than its bytes, so it is refused.
            auto_decompress=False,
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                "User-Agent": f"partway/{__version__}",
            },
        )

    async def aclose(self) -> None:
        await self._session.close()

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
        try:
            return await self._listed(collection, PAGE_OBJECTS)
        except AnswerTooLarge:  # the pages of one list have one size
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
            with self._understood(f"GET {collection.path}"):
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
        with self._understood(asked):
            async with self._limited(asked, REQUEST_TIMEOUT):
                answer = await self._send("GET", collection.path, query)
                if answer.status != 200:
                    async with answer:
                        data = await _body(asked, answer)
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
        with self._understood(f"GET {path}"):
            return tuple(str(each["version"]) for each in found["versions"])

    async def release(self) -> tuple[int, int]:
        """Return the server's version of Kubernetes, such as (1, 30)."""
        path = "/version"
        found = await self._asked("GET", path)
        with self._understood(f"GET {path}"):
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
        with self._understood(f"{method} {path}"):
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
        with self._understood(asked):
            async with self._limited(asked, seconds):
                answer = await self._send(method, path, query, body, kind)
                async with answer:
                    data = await _body(asked, answer)
            if not 200 <= answer.status < 300:
                raise refusal(asked, answer.status, _json_or_none(data))
            return data

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: ClusterObject | None = None,
        kind: str = "",
    ) -> aiohttp.ClientResponse:
        """Send a request; once more if its token is refused, and its file has another one."""
        data = None if body is None else json.dumps(body).encode()

        async def send(token: str) -> aiohttp.ClientResponse:
            return await self._session.request(
                method,
                self.settings.server + path,
                params=query,
                data=data,
                headers=_headers(token, kind if body is not None else ""),
                allow_redirects=False,
                ssl=self._context(),
            )

        token = self._token.read()
        answer = await send(token)
        if answer.status == _UNAUTHORIZED and self._token.has_changed(token):
            answer.close()
            answer = await send(self._token.read())
        if coding := answer.headers.get("Content-Encoding"):
            answer.close()
            raise aiohttp.ClientPayloadError(f"its answer is compressed ({coding}), unasked")
        return answer

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
        with self._understood(asked):
            try:
                async with time_limit(self._clock, left):
                    return await answer.content.readany()
            except TimeoutError:
                return b""

    @asynccontextmanager
    async def _limited(self, asked: str, seconds: float) -> AsyncIterator[None]:
        try:
            async with time_limit(self._clock, seconds):
                yield
        except TimeoutError:
            raise ClusterAway(
                f"{asked}: the API server at {self.settings.server} has not answered within "
                f"{seconds:g} s"
            ) from None

    @contextmanager
    def _understood(self, asked: str) -> Iterator[None]:
        try:
            yield
        except (aiohttp.ClientError, OSError) as error:
            self._tls = None  # the roots may have been renewed
            raise ClusterAway(f"{asked}: {self._why(error)}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:  # JSON of another form
            raise ClusterAway(
                f"{asked}: the server at {self.settings.server} is no Kubernetes API, or its "
                f"answer is invalid: {cut(safe(repr(error)), MAX_SHOWN)}"
            ) from error

    def _why(self, error: aiohttp.ClientError | OSError) -> str:
        where = f"the API server at {self.settings.server}"
        number = error.errno if isinstance(error, OSError) else None
        if number in NO_DESCRIPTOR:
            return (
                f"this process has no file descriptor left to connect to {where} "
                f"({os.strerror(number)}); raise its limit: ulimit -n"
            )
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return (
                f"the certificate of {where} is not accepted: "
                f"{cut(safe(str(error.certificate_error)), MAX_SHOWN)}; name its roots: ca_file in "
                "[cluster], or --ca-file"
            )
        why = os.strerror(number) if number else cut(safe(str(error)), MAX_SHOWN)
        return f"{where} does not answer: {why or type(error).__name__}"

    def _context(self) -> ssl.SSLContext | bool:
        if not self.settings.server.startswith("https:"):
            return True
        if self._tls is None:
            try:
                self._tls = client_tls("http/1.1", self.settings.ca_file)
            except OSError as error:
                why = error.strerror if not isinstance(error, ssl.SSLError) else "no PEM is in it"
                raise ClusterAway(
                    f"{self.settings.ca_file}: the file of roots cannot be used: {why}"
                ) from None
        return self._tls


def _probed_socket(info: AddrInfoType) -> socket.socket:
    """Make a socket whose peer is asked for a sign of life, as a watch may be silent for long."""
    family, kind, protocol, *_ = info
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_INTERVAL)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_INTERVAL)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
        silence = PROBE_INTERVAL * (PROBES + 1) * 1000
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, silence)
    return made


def _headers(token: str, kind: str) -> dict[str, str]:
    given = {"Authorization": token and f"Bearer {token}", "Content-Type": kind}
    return {name: value for name, value in given.items() if value}


def _selection(collection: Collection) -> dict[str, str]:
    return {"labelSelector": collection.labels} if collection.labels else {}


async def _body(asked: str, answer: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    while data := await answer.content.readany():
        body += data
        if len(body) > MAX_ANSWER:
            answer.close()
            raise AnswerTooLarge(
                f"{asked}: the answer has more than {MAX_ANSWER} bytes, which is the limit"
            )
    return bytes(body)


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
