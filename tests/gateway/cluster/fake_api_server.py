"""A Kubernetes API server in memory: lists, watches, versions, and the faults that it is told.

::

    server = FakeApiServer()
    await server.start()
    server.put("v1", "services", {"metadata": {"name": "chat", "namespace": "default"}})
    ...
    await server.stop()

It has each kind that is asked for. It checks what a client of the API relies on: names, versions,
uids, owners, and that ``status`` is a part of its own for the kinds in ``with_status``.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import uuid
from collections.abc import Awaitable, Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Answer = web.StreamResponse | None | Exception
JsonObject = dict[str, Any]


def failure(status: int, reason: str, message: str = "") -> web.Response:
    body = {
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "reason": reason, "code": status, "message": message or f"fault: {reason}",
    }  # fmt: skip
    return web.json_response(body, status=status)


def merged(old: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass
class FakeApiServer:
    """Attributes:
    objects: by API version and plural, then by namespace and name.
    asked: every request.
    answered: how many have got their answers, watches among them once they begin.
    tokens: those that are accepted; None for any, or none.
    fault: looks at a request before it is answered. An answer replaces the usual one; an exception
        drops the connection. It may be a coroutine function.
    after: looks at a request after a change was made, likewise.
    oldest: watches from a version before this one get 410.
    page: objects of one page of a list.
    release: its version of Kubernetes.
    """

    objects: dict[tuple[str, str], dict[tuple[str, str], JsonObject]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    tokens: set[str] | None = None
    fault: Callable[[Asked], Answer | Awaitable[Answer]] = lambda asked: None
    after: Callable[[Asked], Answer] = lambda asked: None
    oldest: int = 0
    page: int = 500
    with_status: frozenset[str] = frozenset({"deployedmodels", "deployments"})
    version: int = 100
    release: tuple[str, str] = ("1", "30")
    port: int = 0

    def __post_init__(self) -> None:
        self.history: list[tuple[int, tuple[str, str], str, JsonObject]] = []
        self.changed = asyncio.Event()
        self.watching = 0
        self.answered = 0
        self.hold_events = False
        self._watches: set[web.StreamResponse] = set()
        self._ending = asyncio.Event()

    async def start(self) -> None:
        app = web.Application(client_max_size=8 << 20)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=1, handler_cancellation=True
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Go away; a further start has the same port and objects."""
        self._ending.set()
        self._wake()
        await self._runner.cleanup()
        self._ending = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    # --- What it has -----------------------------------------------------------------------------

    def all(self, api_version: str, plural: str) -> dict[tuple[str, str], JsonObject]:
        return self.objects.setdefault((api_version, plural), {})

    def find(self, api_version: str, plural: str, name: str, namespace: str = "default") -> Any:
        return self.all(api_version, plural).get((namespace, name))

    def put(self, api_version: str, plural: str, given: JsonObject) -> JsonObject:
        """Have an object, as if a client had made or changed it; ``status`` is kept as given."""
        made = deepcopy(given)
        metadata = made["metadata"]
        key = (metadata.setdefault("namespace", "default"), metadata["name"])
        before = self.all(api_version, plural).get(key)
        old = before["metadata"] if before else {}
        metadata.setdefault("uid", old.get("uid") or str(uuid.uuid4()))
        metadata.setdefault("creationTimestamp", "2026-11-22T16:31:15Z")
        is_new_spec = before is not None and before.get("spec") != made.get("spec")
        metadata["generation"] = old.get("generation", 1) + is_new_spec
        self._store((api_version, plural), key, made, "MODIFIED" if before else "ADDED")
        return made

    def remove(self, api_version: str, plural: str, name: str, namespace: str = "default") -> None:
        kind = (api_version, plural)
        gone = self.all(*kind).pop((namespace, name))
        self._note(kind, "DELETED", gone)
        uid = gone["metadata"]["uid"]
        for (version, each), objects in list(self.objects.items()):
            for (place, other), found in list(objects.items()):
                owners = found["metadata"].get("ownerReferences", ())
                if any(owner["uid"] == uid for owner in owners):
                    self.remove(version, each, other, place)

    def bookmark(self, api_version: str, plural: str) -> None:
        self.version += 1
        mark = {"metadata": {"resourceVersion": str(self.version)}}
        self.history.append((self.version, (api_version, plural), "BOOKMARK", mark))
        self._wake()

    def forget(self) -> None:
        """Forget all changes so far."""
        self.version += 1
        self.oldest = self.version

    def release_events(self) -> None:
        """Have watches tell what they held back while ``hold_events`` was set."""
        self.hold_events = False
        self._wake()

    def cut_watches(self) -> None:
        """Drop the connections of all watches."""
        for each in self._watches:
            if each._req is not None and each._req.transport is not None:
                each._req.transport.abort()

    def _store(
        self, kind: tuple[str, str], key: tuple[str, str], made: JsonObject, what: str
    ) -> None:
        self.all(*kind)[key] = made
        self._note(kind, what, made)

    def _note(self, kind: tuple[str, str], what: str, changed: JsonObject) -> None:
        self.version += 1
        changed["metadata"]["resourceVersion"] = str(self.version)
        self.history.append((self.version, kind, what, deepcopy(changed)))
        self._wake()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    # --- Answers ---------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._answered(request)
        finally:
            if "watch" not in request.query:
                self.answered += 1

    async def _answered(self, request: web.Request) -> web.StreamResponse:
        data = await request.read()
        asked = Asked(
            request.method, request.path, dict(request.query), dict(request.headers),
            json.loads(data) if data else None,
        )  # fmt: skip
        self.asked.append(asked)
        if self.tokens is not None:
            token = request.headers.get("Authorization", "").removeprefix("Bearer ")
            if token not in self.tokens:
                return failure(401, "Unauthorized", "Unauthorized")
        fault = self.fault(asked)
        if inspect.isawaitable(fault):
            fault = await fault
        if (told := self._told(request, fault)) is not None:
            return told
        answer = await self._usual(request, asked)
        if asked.method != "GET" and (told := self._told(request, self.after(asked))) is not None:
            return told
        return answer

    def _told(self, request: web.Request, what: Answer) -> web.StreamResponse | None:
        if isinstance(what, Exception):
            assert request.transport is not None
            request.transport.abort()
            raise ConnectionResetError
        return what

    async def _usual(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        words = asked.path.strip("/").split("/")
        if words == ["version"]:
            major, minor = self.release
            return web.json_response({"major": major, "minor": minor, "gitVersion": "v"})
        api_version = "v1" if words[0] == "api" else "/".join(words[1:3])
        rest = words[2:] if words[0] == "api" else words[3:]
        if words[0] == "apis" and len(words) == 2:
            versions = [version for version, _ in self.objects if version.startswith(words[1])]
            if not versions:
                return failure(404, "NotFound", "the server could not find the requested resource")
            listed = [{"groupVersion": v, "version": v.split("/")[1]} for v in versions]
            return web.json_response({"kind": "APIGroup", "name": words[1], "versions": listed})
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        kind = (api_version, rest[0])
        if len(rest) == 1:
            if asked.method == "POST":
                return self._create(kind, namespace, asked.body)
            if asked.query.get("watch"):
                return await self._watch(request, kind, namespace, asked)
            return self._list(kind, namespace, asked)
        return self._one(kind, (namespace, rest[1]), "/".join(rest[2:]), asked)

    def _selected(
        self, namespace: str, labels: str, objects: list[JsonObject]
    ) -> Iterator[JsonObject]:
        terms = [term.partition("=") for term in labels.split(",") if term]
        for each in objects:
            has = each["metadata"].get("labels", {})
            is_there = namespace in ("", each["metadata"].get("namespace"))
            if is_there and all(
                has.get(name) == value if equals else name in has for name, equals, value in terms
            ):
                yield each

    def _list(self, kind: tuple[str, str], namespace: str, asked: Asked) -> web.Response:
        labels = asked.query.get("labelSelector", "")
        found = list(self._selected(namespace, labels, list(self.all(*kind).values())))
        begin = int(asked.query.get("continue", "0"))
        end = begin + min(self.page, int(asked.query.get("limit", "500")))
        metadata = {"resourceVersion": str(self.version)}
        if end < len(found):
            metadata["continue"] = str(end)
        return web.json_response({"kind": "List", "metadata": metadata, "items": found[begin:end]})

    def _create(self, kind: tuple[str, str], namespace: str, given: JsonObject) -> web.Response:
        name = given["metadata"]["name"]
        if (namespace, name) in self.all(*kind):
            return failure(409, "AlreadyExists", f'{kind[1]} "{name}" already exists')
        made = {**given, "metadata": {**given["metadata"], "namespace": namespace}}
        return web.json_response(self.put(*kind, made), status=201)

    def _one(
        self, kind: tuple[str, str], key: tuple[str, str], part: str, asked: Asked
    ) -> web.Response:
        found = self.all(*kind).get(key)
        if found is None:
            return failure(404, "NotFound", f'{kind[1]} "{key[1]}" not found')
        metadata = found["metadata"]
        given = asked.body or {}
        conditions = given.get("preconditions", given.get("metadata", {}))
        for member in ("uid", "resourceVersion"):
            if conditions.get(member) not in (None, metadata[member]):
                return failure(409, "Conflict", "the object has been modified")
        if asked.method == "DELETE":
            self.remove(*kind, key[1], key[0])
            return web.json_response({"kind": "Status", "status": "Success"})
        if asked.method in ("PATCH", "PUT"):
            made = given if asked.method == "PUT" else merged(found, given)
            own = kind[1] in self.with_status or (kind[1] == "endpoints" and "partway" in kind[0])
            if part == "status":
                made = {**found, "status": made.get("status", {})}
            elif own:
                made = {**made, "status": found.get("status", {})}
            made = {**made, "metadata": {**made["metadata"], "uid": metadata["uid"]}}
            if {**made, "metadata": {**made["metadata"], "resourceVersion": ""}} == {
                **found, "metadata": {**metadata, "resourceVersion": ""}
            }:  # fmt: skip
                return web.json_response(found)  # nothing has changed, as with the real one
            return web.json_response(self.put(*kind, made))
        return web.json_response(found)

    async def _watch(
        self, request: web.Request, kind: tuple[str, str], namespace: str, asked: Asked
    ) -> web.StreamResponse:
        since = int(asked.query["resourceVersion"])
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        self.watching += 1
        self.answered += 1
        self._watches.add(answer)
        try:
            if since < self.oldest:
                status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
                await self.tell(answer, "ERROR", status)
                return answer
            while not self._ending.is_set():
                changed = self.changed
                labels = asked.query.get("labelSelector", "")
                for version, of, what, each in self.history[:]:
                    if self.hold_events:
                        break
                    if version > since and of == kind:
                        since = version
                        if what == "BOOKMARK" or any(self._selected(namespace, labels, [each])):
                            await self.tell(answer, what, each)
                await changed.wait()
            return answer
        finally:
            self.watching -= 1
            self._watches.discard(answer)

    @staticmethod
    async def tell(answer: web.StreamResponse, what: str, each: JsonObject) -> None:
        await answer.write(json.dumps({"type": what, "object": each}).encode() + b"\n")
