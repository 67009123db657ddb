"""Containers of an engine, Docker or Podman: images started as the platform starts them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from partway.gateway.clock import Clock, LoopClock
from partway.gateway.fleet.endpoints import Image
from partway.gateway.fleet.images import is_image
from partway.gateway.fleet.launchers.engine_client import (
    EngineAway,
    EngineClient,
    EngineRefusal,
    EngineState,
    find_engine,
)
from partway.gateway.fleet.launchers.engine_container import EngineContainer, growing_waits
from partway.gateway.fleet.launchers.engine_image import (
    ImageConfiguration,
    shown,
    why_not_started,
)
from partway.gateway.fleet.launchers.engine_request import container_name, container_request
from partway.gateway.fleet.launchers.launcher import LaunchError, Order
from partway.gateway.fleet.limits import ENGINE_REMOVAL_TIMEOUT, ENGINE_REMOVAL_TRIES, KILL_TIMEOUT
from partway.gateway.waiting import pause, time_limit
from partway.log_lines import LogLine

log = logging.getLogger("partway.fleet")

#: What is an engine's last word, if it says so of an image or a container.
_LAST_WORDS: Final = range(400, 500)

#: How else to run what an image would: each message that has no image says it.
_OTHERWISE: Final = "or map the image's name to a command in the table [images]"

#: A removal that is not yet told whether there will be a container looks so often.
_LOOKS: Final = 8


class EngineLauncher:
    """Launches what is to run from an :class:`Image`.

    Args:
        gateway: marks the containers of this gateway, which no other one may have.
        clock: measures all times; the running loop's by default.
        find: where the engine is, looked for anew as long as it has not been found.
    """

    def __init__(
        self,
        gateway: str,
        *,
        clock: Clock | None = None,
        find: Callable[[], str] = find_engine,
    ) -> None:
        self._gateway = gateway
        self._clock = LoopClock() if clock is None else clock
        self._find = find
        self._engine: EngineClient | None = None
        self._own: set[str] = set()  # names of containers that somebody here sees to
        self._removals: set[asyncio.Task[None]] = set()
        self._looking = asyncio.Lock()
        self._looked = False

    async def launch(self, order: Order) -> EngineContainer:
        """Start a container of an image; returns as soon as its port is published.

        Raises:
            LaunchError: it cannot be started. Nothing of it is left then, nor if this is cancelled.
        """
        source = order.variant.source
        assert isinstance(source, Image), "nothing else is for an engine"
        found = await self.image(source)
        if trouble := why_not_started(found):
            raise LaunchError(f"image {source.name} cannot be started: {trouble}", passing=False)
        with _said_of(source):
            engine = self._connected()
            async with self._looking:
                if not self._looked:  # one that stays is logged, and keeps nobody from starting
                    await self._remove_leftovers(engine)
            return await self._start(engine, order)

    async def image(self, source: Image) -> ImageConfiguration:
        """What an image says of itself, once it is there, by a pull if need be.

        Raises:
            LaunchError: it is not there, and is not to be pulled or cannot be.
        """
        if not is_image(source.name):
            raise LaunchError(f"{shown(source.name)} cannot be an image's name", passing=False)
        with _said_of(source):
            engine = self._connected()
            found = None if source.pull == "always" else await engine.image(source.name)
            return found or await _pulled(engine, source)

    async def remove_leftovers(self) -> int:
        """Remove this gateway's containers that nobody here sees to, as after ``kill -9``.

        The first launch does it too, if nobody has by then.

        Returns:
            How many there were.

        Raises:
            LaunchError: there is no engine that could tell, or it cannot remove them.
        """
        try:
            async with self._looking:
                removed, stays = await self._remove_leftovers(self._connected())
        except (EngineAway, EngineRefusal) as error:
            raise LaunchError(str(error), passing=True) from error
        if stays:
            raise LaunchError(stays, passing=True)
        return removed

    async def aclose(self) -> None:
        """Give back what the launcher itself holds, once all its containers have ended.

        Removals that are under way are waited for as long as one after the other succeeds.
        """
        with suppress(TimeoutError):
            while self._removals:
                async with time_limit(self._clock, ENGINE_REMOVAL_TIMEOUT):
                    await asyncio.wait(self._removals, return_when=asyncio.FIRST_COMPLETED)
        for removal in self._removals:
            removal.cancel()
        if self._removals:
            await asyncio.wait(self._removals)
        if self._own:
            left = " ".join(sorted(self._own))
            log.warning(LogLine("containers are left to the engine", containers=left))
        if self._engine is not None:
            await self._engine.aclose()

    # --- Starting --------------------------------------------------------------------------------

    def _connected(self) -> EngineClient:
        if self._engine is None:
            self._engine = EngineClient(self._find(), self._clock)
        return self._engine

    async def _remove_leftovers(self, engine: EngineClient) -> tuple[int, str]:
        """How many were removed, and what is to be said of one that could not be."""
        found = await engine.containers_of(self._gateway)
        left = {
            container: instance
            for container, instance in found.items()
            if self._name(instance) not in self._own
        }
        removed, stays = 0, ""
        for container, instance in left.items():
            about = {"instance": instance, "container": container}
            try:
                await engine.remove(container)
            except EngineRefusal as refusal:
                stays = f"the leftover container {container} cannot be removed: {refusal}"
                log.warning(LogLine("leftover container stays", **about, reason=str(refusal)))
            else:
                removed += 1
                log.info(LogLine("leftover container removed", **about))
        self._looked = True
        return removed, stays

    async def _start(self, engine: EngineClient, order: Order) -> EngineContainer:
        name = self._name(order.instance)
        self._own.add(name)
        # An engine makes what it was asked for, whether or not somebody still waits for the answer.
        creating = asyncio.create_task(engine.create(name, container_request(order, self._gateway)))
        try:
            await asyncio.shield(creating)
            await engine.start(name)
            state = await engine.state(name)
            _check_published(order, state)
        except BaseException:
            removal = self._remove(name, creating)
            with suppress(TimeoutError):
                async with time_limit(self._clock, KILL_TIMEOUT):
                    await asyncio.wait((removal,))
            raise
        return EngineContainer(engine, name, state, order.output, self._remove, self._clock)

    def _name(self, instance: str) -> str:
        return container_name(self._gateway, instance)

    # --- Removing --------------------------------------------------------------------------------

    def _remove(self, name: str, creating: asyncio.Task[None] | None = None) -> asyncio.Task[None]:
        """Begin to remove a container; if the engine is away or busy, it is asked again."""
        removal = asyncio.create_task(
            self._removed(name, creating), name=f"removal of container {name}"
        )
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)
        return removal

    async def _removed(self, name: str, creating: asyncio.Task[None] | None) -> None:
        certain = True
        if creating is not None:
            try:
                await creating
            except EngineRefusal:  # then there is none, or one of the name that is not ours
                self._own.discard(name)
                return
            except EngineAway:
                certain = False
        await self._ask_to_remove(name, certain)
        self._own.discard(name)

    async def _ask_to_remove(self, name: str, certain: bool) -> None:
        """Ask until it is done, or until the engine has refused it too often."""
        assert self._engine is not None, "a container came from it"
        looks = refusals = 0
        for wait in growing_waits():
            try:
                if await self._engine.remove(name) or certain or looks == _LOOKS:
                    return
                looks += 1
            except EngineAway:
                pass  # one that is away comes back
            except EngineRefusal as refusal:  # such as 409: it is being removed
                refusals += 1
                about = {"container": name, "reason": str(refusal)}
                if refusals == ENGINE_REMOVAL_TRIES:
                    log.warning(LogLine("container is left to the next start", **about))
                    return
                if refusals == 1:
                    log.warning(LogLine("container is not removed yet", **about))
            await pause(self._clock, wait)


def _check_published(order: Order, state: EngineState) -> None:
    if state.running and state.port is None:
        raise LaunchError(
            f"no container of {order.endpoint} can be reached: the engine publishes no port of it",
            passing=False,
        )


async def _pulled(engine: EngineClient, source: Image) -> ImageConfiguration:
    name = source.name
    if source.pull == "never":
        raise LaunchError(
            f"the engine at {engine.where} has no image {name}, and is never to pull it: build or "
            f'load it (docker build, docker load), let it be pulled (pull = "missing"), '
            f"{_OTHERWISE}",
            passing=False,
        )
    log.info(LogLine("image is pulled", image=name))
    try:
        await engine.pull(name)
        found = await engine.image(name)
    except EngineRefusal as refusal:
        raise LaunchError(
            f"the engine at {engine.where} cannot pull image {name}: {refusal}; build or load it "
            f"(docker build, docker load), log in to its registry and pull it (docker login, "
            f"docker pull), {_OTHERWISE}",
            passing=refusal.status not in _LAST_WORDS,
        ) from refusal
    if found is None:
        raise LaunchError(
            f"the engine at {engine.where} says that it has pulled image {name}, and has it not",
            passing=True,
        )
    return found


@contextmanager
def _said_of(source: Image) -> Iterator[None]:
    """Turn what an engine answers into what is said of an image."""
    try:
        yield
    except EngineAway as away:
        raise LaunchError(
            f"image {source.name} cannot be started: {away}; start the engine, {_OTHERWISE}",
            passing=True,
        ) from away
    except EngineRefusal as refusal:
        raise _refused(source, refusal) from refusal


def _refused(source: Image, refusal: EngineRefusal) -> LaunchError:
    what = f"image {source.name} cannot be started: the engine says: {refusal}"
    if "capabilities: [[gpu]]" in str(refusal):
        return LaunchError(
            f"{what}; for gpus the engine needs the NVIDIA Container Toolkit", passing=False
        )
    return LaunchError(what, passing=refusal.status not in _LAST_WORDS or refusal.status == 409)
