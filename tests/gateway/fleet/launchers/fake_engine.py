"""A container engine's API on a socket, without containers: it fails as it is told to.

::

    engine = FakeEngine(tmp_path / "engine.sock")
    await engine.start()
    ...
    engine.container("partway-…").end(3)
    await engine.stop()  # the engine is away; its containers run on
"""

from __future__ import annotations

import asyncio
import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from partway.gateway.fleet.launchers.engine_image import LABEL
from tests.gateway.fleet.fakes import turns
from tests.gateway.fleet.waiting import eventually

#: What an image that can be started says of itself.
GOOD = {"Entrypoint": ["program"], "Labels": {LABEL: "true"}}

#: Where every container's port is published.
PORT = 40123


@dataclass
class FakeContainer:
    """A container, as the engine has it; what becomes of it is the test's affair."""

    request: dict[str, Any]
    running: bool = False
    status: int = 0
    out_of_memory: bool = False
    error: str = ""
    ends_by: frozenset[str] = frozenset({"SIGTERM", "SIGKILL"})
    entries: list[bytes] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def says(self, text: bytes, output: int = 1) -> None:
        number = len(self.entries)
        time = f"2026-11-22T16:31:{number // 1000:02}.{number % 1000:03}000000Z "
        said = time.encode() + text
        self.entries.append(struct.pack(">BxxxI", output, len(said)) + said)
        self._change()

    def end(self, status: int) -> None:
        self.running = False
        self.status = status
        self._change()

    def signalled(self, name: str) -> None:
        if name in self.ends_by:
            self.end({"SIGTERM": 143, "SIGKILL": 137}[name])

    def _change(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class FakeEngine:
    """Attributes:
    images: by name what each says of itself.
    pulls: by name the lines of a pull; what the engine then has is ``GOOD``.
    containers: by name.
    answers: in place of the usual ones, by method and the path behind the version: an answer, an
        error to hang up with, or a function that is asked first.
    asked: method and path of each request.
    port: where it publishes that of each container; None if it does not.
    image_ids: by name what each image's id is, if not the usual one.
    unpublished: names of containers whose port is not published.
    since: the second from which on each asked for a container's output.
    """

    #: What the engine says of each container: its id, and its first process.
    id = "0123abcd"
    pid = 4321

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.images: dict[str, Any] = {"model:1": GOOD}
        self.pulls: dict[str, list[Any]] = {}
        self.containers: dict[str, FakeContainer] = {}
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        self.image_ids: dict[str, str] = {}
        self.unpublished: set[str] = set()
        self.since: list[str] = []
        self.port: int | None = PORT
        self._runner: web.AppRunner | None = None

    @property
    def where(self) -> str:
        return f"unix://{self.socket}"

    async def start(self) -> None:
        """Begin to answer, unless it does."""
        if self._runner is not None:
            return
        app = web.Application(middlewares=[self._told])
        app.add_routes(
            [
                web.get("/version", self._version),
                web.get("/{version}/version", self._version),
                web.get("/{version}/images/{image:.+}/json", self._image),
                web.post("/{version}/images/create", self._pull),
                web.get("/{version}/containers/json", self._list),
                web.post("/{version}/containers/create", self._create),
                web.post("/{version}/containers/{name}/start", self._start),
                web.get("/{version}/containers/{name}/json", self._show),
                web.post("/{version}/containers/{name}/wait", self._wait),
                web.post("/{version}/containers/{name}/kill", self._kill),
                web.get("/{version}/containers/{name}/logs", self._logs),
                web.delete("/{version}/containers/{name}", self._delete),
            ]
        )
        self._runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
        await self._runner.setup()
        await web.UnixSite(self._runner, str(self.socket)).start()

    async def stop(self) -> None:
        """Go away, and hang up on whoever waits for anything."""
        self.socket.unlink(missing_ok=True)
        # asyncio would drop a connection that it is just accepting, and leave it open: Python 3.11
        # has no place for it in a server that is closed.
        await turns()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def container(self) -> FakeContainer:
        """The only one, once it runs and its end is waited for."""
        await eventually(lambda: any(asked.endswith("/wait") for asked in self.asked))
        (container,) = self.containers.values()
        return container

    @web.middleware
    async def _told(self, request: web.Request, handler: Any) -> web.StreamResponse:
        path = request.path.partition("/v1.41")[2] or request.path
        what = f"{request.method} {path}"
        self.asked.append(what)
        for begins, answer in self.answers.items():
            if what.startswith(begins):
                if isinstance(answer, web.Response):
                    return web.Response(
                        status=answer.status, body=answer.body, headers=answer.headers
                    )
                if answer is None:  # hang up
                    assert request.transport is not None
                    request.transport.abort()
                    return web.Response()
                await answer()
        return await handler(request)

    def _found(self, request: web.Request) -> FakeContainer:
        try:
            return self.containers[request.match_info["name"]]
        except KeyError:
            raise refused(web.HTTPNotFound, "No such container") from None

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response({"ApiVersion": "1.41"})

    async def _image(self, request: web.Request) -> web.Response:
        name = request.match_info["image"]
        if name not in self.images:
            raise refused(web.HTTPNotFound, f"No such image: {name}")
        found = {"Id": self.image_ids.get(name, "sha256:1"), "Config": self.images[name]}
        return web.json_response(found)

    async def _pull(self, request: web.Request) -> web.StreamResponse:
        name = request.query["fromImage"]
        if name not in self.pulls:
            raise refused(web.HTTPNotFound, f"pull access denied for {name}")
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        for line in self.pulls[name]:
            if callable(line):
                await line()
            else:
                await answer.write(json.dumps(line).encode() + b"\r\n")
        self.images[name] = GOOD
        return answer

    async def _list(self, request: web.Request) -> web.Response:
        (label,) = json.loads(request.query["filters"])["label"]
        assert request.query["all"] == "1"
        key, _, value = label.partition("=")
        return web.json_response(
            [
                {
                    "Id": name,
                    "Labels": container.request["Labels"],
                    "State": "running" if container.running else "exited",
                    "Created": created,
                }
                for created, (name, container) in enumerate(self.containers.items())
                if container.request["Labels"].get(key) == value
            ]
        )

    async def _create(self, request: web.Request) -> web.Response:
        name = request.query["name"]
        if name in self.containers:
            raise refused(web.HTTPConflict, f"The container name {name} is already in use")
        self.containers[name] = FakeContainer(await request.json())
        return web.json_response({"Id": name}, status=201)

    async def _start(self, request: web.Request) -> web.Response:
        self._found(request).running = True
        return web.Response(status=204)

    async def _show(self, request: web.Request) -> web.Response:
        found = self._found(request)
        is_published = (
            found.running and self.port and request.match_info["name"] not in self.unpublished
        )
        bound = [{"HostIp": "127.0.0.1", "HostPort": str(self.port)}]
        ports = {
            "9/tcp": None,
            **dict.fromkeys(found.request.get("ExposedPorts", ["8080/tcp"]), bound),
        }
        state = {
            "Running": found.running,
            "ExitCode": found.status,
            "OOMKilled": found.out_of_memory,
            "Error": found.error,
            "Pid": self.pid if found.running else 0,
        }
        return web.json_response(
            {
                "Id": self.id,
                "State": state,
                "NetworkSettings": {"Ports": ports if is_published else {}},
            }
        )

    async def _wait(self, request: web.Request) -> web.StreamResponse:
        found = self._found(request)
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        while found.running:
            await found.changed.wait()
        await answer.write(json.dumps({"StatusCode": found.status}).encode())
        return answer

    async def _kill(self, request: web.Request) -> web.Response:
        found = self._found(request)
        if not found.running:
            raise refused(web.HTTPConflict, "Container is not running")
        found.signalled(request.query["signal"])
        return web.Response(status=204)

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        found = self._found(request)
        self.since.append(request.query.get("since", "0"))
        answer = web.StreamResponse()
        await answer.prepare(request)
        sent = 0
        while True:
            changed = found.changed
            for entry in found.entries[sent:]:
                await answer.write(entry)
            sent = len(found.entries)
            if not found.running:
                return answer
            await changed.wait()

    async def _delete(self, request: web.Request) -> web.Response:
        self._found(request).end(137)
        del self.containers[request.match_info["name"]]
        return web.Response(status=204)


def refused(kind: type[web.HTTPException], why: str) -> web.HTTPException:
    """A refusal as an engine words it."""
    error = kind(text=json.dumps({"message": why}))
    error.headers["Content-Type"] = "application/json"  # without a charset, as an engine has it
    return error


def refusal(status: int, why: str) -> web.Response:
    """The same, for ``answers``."""
    body = json.dumps({"message": why}).encode()
    return web.Response(status=status, body=body, headers={"Content-Type": "application/json"})
