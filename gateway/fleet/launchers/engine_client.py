"""A client of a container engine's API, for Docker and Podman alike.

This module imports aiohttp and aiodocker, which takes 0.3 s, so only users of an engine import it.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import urlsplit

import aiohttp
from aiodocker import Docker, DockerError

from partway.gateway.fleet.launchers.engine_answers import (
    MAX_SHOWN,
    NOT_FOUND,
    EngineAway,
    EngineNotAsked,
    EngineRefusal,
    EngineState,
    ListedContainer,
)
from partway.gateway.fleet.launchers.engine_image import ImageConfiguration, image_configuration
from partway.gateway.fleet.launchers.engine_request import GATEWAY_LABEL
from partway.gateway.fleet.limits import (
    ENGINE_LOG_ENTRY,
    ENGINE_REQUESTS,
    ENGINE_TIMEOUT,
    MAX_ENGINE_ANSWER,
    PULL_SILENCE,
    PULL_TIMEOUT,
)
from partway.gateway.network.dialling import NO_DESCRIPTOR
from partway.gateway.plain_text import cut, safe
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit

if TYPE_CHECKING:
    from aiodocker.containers import DockerContainer

_T = TypeVar("_T")

#: aiodocker's status for a missing answer.
_NO_ANSWER: Final = 900

#: Never resolved: requests through a socket need some host.
_ANY_HOST: Final = "http://engine"


class _BoundedResponse(aiohttp.ClientResponse):
    """A response whose body is read whole only up to a limit."""

    async def read(self) -> bytes:
        if self._body is None:
            try:
                self._body = await self._gathered()
            except BaseException:
                self.close()
                raise
        return self._body

    async def _gathered(self) -> bytes:
        body = bytearray()
        while data := await self.content.readany():
            body += data
            if len(body) > MAX_ENGINE_ANSWER:
                raise aiohttp.ClientPayloadError(f"more than {MAX_ENGINE_ANSWER} bytes")
        return bytes(body)


class EngineClient:
    """A connection to an engine. Made in a running loop; closed by :meth:`aclose`.

    All methods raise :class:`EngineAway` and :class:`EngineRefusal`.

    Args:
        where: from :func:`~partway.gateway.fleet.launchers.engine_answers.find_engine`.
    """

    def __init__(self, where: str, clock: Clock) -> None:
        self.where = where
        self._clock = clock
        self._turns = asyncio.Semaphore(ENGINE_REQUESTS)
        # Removals and ends do not wait behind requests that create containers.
        self._removals = asyncio.Semaphore(ENGINE_REQUESTS)
        parts = urlsplit(where)
        connector: aiohttp.BaseConnector
        if parts.scheme == "unix":
            url = _ANY_HOST
            connector = aiohttp.UnixConnector(parts.path, limit=0)  # the turns are the limit
        else:
            url = f"http://{parts.netloc}"
            connector = aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(
            connector=connector,
            response_class=_BoundedResponse,
            timeout=aiohttp.ClientTimeout(),  # none of its own
        )
        self._docker = Docker(url, connector, self._session)

    async def aclose(self) -> None:
        await self._docker.close()
        await self._session.close()

    # --- Images ----------------------------------------------------------------------------------

    async def image(self, name: str) -> ImageConfiguration | None:
        """Return an image's configuration; None if the engine has no image of that name."""
        try:
            found = await self._asked(lambda: self._docker.images.inspect(name))
        except EngineRefusal as refusal:
            if refusal.status == NOT_FOUND:
                return None
            raise
        with self._understood():
            return replace(image_configuration(found.get("Config") or {}), id=str(found["Id"]))

    async def pull(self, name: str) -> None:
        pulling = cast(
            "AsyncGenerator[dict[str, Any], None]", self._docker.images.pull(name, stream=True)
        )
        with self._understood():
            try:
                async with time_limit(self._clock, PULL_TIMEOUT), aclosing(pulling):
                    while await self._progress(pulling):
                        pass
            except TimeoutError:
                raise EngineAway(
                    f"the engine at {self.where} has not pulled the image within {PULL_TIMEOUT:g} s"
                ) from None

    async def _progress(self, pulling: AsyncGenerator[dict[str, Any], None]) -> bool:
        """Wait for the next progress message of a pull; return False once it is over."""
        try:
            async with time_limit(self._clock, PULL_SILENCE):
                return await anext(pulling, None) is not None
        except TimeoutError:
            raise EngineAway(
                f"the engine at {self.where} has reported no progress of the image's pull for "
                f"{PULL_SILENCE:g} s"
            ) from None

    # --- Containers ------------------------------------------------------------------------------

    async def create(self, name: str, request: Mapping[str, Any]) -> None:
        await self._asked(lambda: self._docker.containers.create(request, name=name))

    async def start(self, name: str) -> None:
        await self._asked(self._container(name).start)

    async def state(self, name: str) -> EngineState:
        found = await self._asked(self._container(name).show, nullcontext())
        with self._understood():
            state = found["State"]
            # Only one port is published; other ports that the image exposes have no binding.
            ports = (found["NetworkSettings"]["Ports"] or {}).values()
            bindings: list[dict[str, str]] = next(filter(None, ports), [])
            return EngineState(
                running=bool(state["Running"]),
                status=int(state["ExitCode"]),
                out_of_memory=bool(state.get("OOMKilled")),
                trouble=cut(safe(str(state.get("Error") or "")), MAX_SHOWN),
                port=int(bindings[0]["HostPort"]) if bindings else None,
                container=str(found["Id"]),
                pid=int(state["Pid"]),
            )

    async def wait(self, name: str) -> None:
        with self._understood():
            await self._container(name).wait()

    async def signal(self, name: str, signal: str) -> None:
        """Send a signal to a container's first process."""
        await self._asked(lambda: self._container(name).kill(signal=signal), nullcontext())

    async def remove(self, name: str) -> bool:
        """Kill a container, and remove it with its volumes.

        Returns:
            Whether there was one.
        """
        try:
            await self._asked(
                lambda: self._container(name).delete(force=True, v=True), self._removals
            )
        except EngineRefusal as refusal:
            if refusal.status == NOT_FOUND:
                return False
            raise
        return True

    async def containers_of(self, gateway: str) -> tuple[ListedContainer, ...]:
        filters = json.dumps({"label": [f"{GATEWAY_LABEL}={gateway}"]})
        found = await self._asked(lambda: self._docker.containers.list(all=True, filters=filters))
        with self._understood():
            return tuple(
                ListedContainer(
                    each.id,
                    {str(name): str(value) for name, value in each["Labels"].items()},
                    each["State"] == "running",
                    int(each["Created"]),
                )
                for each in found
            )

    async def output(self, name: str, since: int) -> AsyncGenerator[bytes, None]:
        """Yield a container's output until its end, in the format of :class:`EngineOutput`."""
        asked = {"stdout": "1", "stderr": "1", "follow": "1", "timestamps": "1"}
        if since:
            asked["since"] = str(since)
        docker = self._docker
        if docker.api_version == "auto":  # as long as nothing was asked
            await self._asked(docker.version)
        url = f"{docker.docker_host}/{docker.api_version}/containers/{name}/logs"
        # Without aiodocker, which decodes text: bytes that are no UTF-8 would end it.
        with self._understood():
            async with self._session.get(url, params=asked) as answer:
                if answer.status != 200:
                    raise EngineRefusal(answer.status, await answer.text(errors="replace"))
                while data := await answer.content.read(ENGINE_LOG_ENTRY):
                    yield data

    def _container(self, name: str) -> DockerContainer:
        return self._docker.containers.container(name)

    # --- Answers ---------------------------------------------------------------------------------

    async def _asked(
        self,
        ask: Callable[[], Awaitable[_T]],
        turns: AbstractAsyncContextManager[object] | None = None,
    ) -> _T:
        """Send a request when its turn comes, and return the answer.

        ``turns`` is the queue that the request waits in; most requests share the default one.
        """
        with self._understood():
            try:
                # Only the answer is limited: the wait for a turn ends, as each request has its
                # limit.
                async with turns or self._turns, time_limit(self._clock, ENGINE_TIMEOUT):
                    return await ask()
            except TimeoutError:
                raise EngineAway(
                    f"the engine at {self.where} has not answered within {ENGINE_TIMEOUT:g} s"
                ) from None

    @contextmanager
    def _understood(self) -> Iterator[None]:
        try:
            yield
        except DockerError as error:
            if error.status == _NO_ANSWER:
                raise self._away(error.__context__) from error
            raise EngineRefusal(error.status, error.message) from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._away(error) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:  # JSON of another form
            raise EngineAway(
                f"the server at {self.where} is not a container engine, or its answer is invalid: "
                f"{cut(safe(repr(error)), MAX_SHOWN)}"
            ) from error

    def _away(self, error: BaseException | None) -> EngineAway:
        number = error.errno if isinstance(error, OSError) else None
        if number in NO_DESCRIPTOR:
            return EngineNotAsked(
                f"the gateway has no file descriptor left to connect to the engine at {self.where} "
                f"({os.strerror(number)}); raise the gateway's limit: ulimit -n, or LimitNOFILE= "
                "of systemd"
            )
        why = os.strerror(number) if number else type(error).__name__
        if number in (errno.EACCES, errno.EPERM):
            why += ": the gateway must run as root, or as a user of the socket's group"
        return EngineAway(f"the engine at {self.where} does not answer: {why}")
