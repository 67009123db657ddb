"""Launching images with a container engine, Docker or Podman, as the platform starts them."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from partway.gateway.fleet.container_ids import instance_of
from partway.gateway.fleet.endpoint import Image
from partway.gateway.fleet.health.startup_pace import pinged
from partway.gateway.fleet.launchers.callers_folder import check_callers_folder
from partway.gateway.fleet.launchers.engine_answers import (
    EngineAway,
    EngineNotAsked,
    EngineRefusal,
    EngineState,
    NoEngine,
    find_engine,
)
from partway.gateway.fleet.launchers.engine_container import EngineContainer
from partway.gateway.fleet.launchers.engine_image import (
    ImageConfiguration,
    shown,
    why_not_started,
    why_vertex_not_started,
)
from partway.gateway.fleet.launchers.engine_leftovers import Leftover, Leftovers
from partway.gateway.fleet.launchers.engine_removals import EngineRemovals
from partway.gateway.fleet.launchers.engine_request import (
    container_name,
    container_request,
    made_of,
)
from partway.gateway.fleet.launchers.gpus import GpuShares
from partway.gateway.fleet.launchers.images import SHIPPED, is_image
from partway.gateway.fleet.launchers.launcher import LaunchError, Order
from partway.gateway.fleet.launchers.local_models import LocalModels
from partway.gateway.fleet.launchers.model_folder import identity_of_folder
from partway.gateway.fleet.launchers.process import HOST
from partway.gateway.fleet.states import StartFailure
from partway.gateway.network.dialling import Address
from partway.gateway.storage.model_data.model_data import HeldData
from partway.gateway.timing.clock import Clock, LoopClock
from partway.gateway.timing.deadlines import time_limit
from partway.log_lines import LogLine

if TYPE_CHECKING:
    from partway.gateway.fleet.launchers.engine_client import EngineClient

log = logging.getLogger("partway.fleet")

#: Statuses of an engine's final refusals of an image or a container.
_LAST_WORDS: Final = range(400, 500)

#: Other ways to run an image; part of each message about a missing image.
_OTHERWISE: Final = (
    f"name an image that ships with Partway ({', '.join(SHIPPED)}), or map the image's name to a "
    "command in the table [images]"
)


class EngineLauncher:
    """Launches the containers of an :class:`Image`.

    A first order may be answered by a running container of a gateway that was killed. The container
    must match the order and answer its pings.

    Args:
        gateway: marks the containers of this gateway; unique to it.
        key: lets the next gateway with the same data recognise what containers are made of.
        gpus: the shares of GPUs; this machine's by default.
        is_kept: whether an earlier gateway process has kept an instance. Its containers are for
            that instance alone, and are not removed, since streams may be open on them.
        find: returns where the engine is; called until it succeeds.
        models: the model data; folders of this machine are used in place by default.
    """

    address_timeout = None  # a pull has limits of its own

    def __init__(
        self,
        gateway: str,
        *,
        key: bytes = b"",
        gpus: GpuShares | None = None,
        clock: Clock | None = None,
        is_kept: Callable[[str], bool] = lambda _: False,
        find: Callable[[], str] = find_engine,
        models: LocalModels | None = None,
    ) -> None:
        self._models = LocalModels() if models is None else models
        self._gateway = gateway
        self._key = key or secrets.token_bytes()
        self._gpus = GpuShares() if gpus is None else gpus
        self._clock = LoopClock() if clock is None else clock
        self._is_kept = is_kept
        self._find = find
        self._engine: EngineClient | None = None
        self._own: set[str] = set()  # instances whose containers are managed here
        self._removals = EngineRemovals(self._clock)
        self._looking = asyncio.Lock()
        self._looked = False
        self._leftovers = Leftovers()
        self._going: set[asyncio.Task[None]] = set()  # removals of leftovers
        self._takes_over = True

    async def launch(self, order: Order) -> EngineContainer:
        """Start a container of an image; return as soon as its port is published.

        Raises:
            LaunchError: it cannot be started. Nothing of it is left then, nor after a cancellation.
        """
        source = order.variant.source
        assert isinstance(source, Image), "nothing else is for an engine"
        data = await self._models.of(order)
        found = await self.image(source)
        vertex = order.variant.vertex
        if trouble := (why_not_started if vertex is None else why_vertex_not_started)(found):
            raise LaunchError(f"image {source.name} cannot be started: {trouble}", passing=False)
        with _said_of(source):
            engine = await self._connected()
            async with self._looking:
                if not self._looked:
                    await self._look(engine)
            made = await self._made(order, found, data)
            if (own := self._leftovers.claim_own(order, made)) is not None:
                return await self._adopted(engine, own)
            if (taken := await self._taken_over(engine, order, made)) is not None:
                return taken
            await self._removals.wait(self._going)  # they hold memory and GPUs
            return await self._start(engine, order, made, data)

    async def image(self, source: Image) -> ImageConfiguration:
        """Return an image's configuration; pull the image if necessary.

        Raises:
            LaunchError: the image is missing, and may not or cannot be pulled.
        """
        if not is_image(source.name):
            raise LaunchError(f"{shown(source.name)} cannot be an image's name", passing=False)
        with _said_of(source):
            engine = await self._connected()
            found = None if source.pull == "always" else await engine.image(source.name)
            return found or await _pulled(engine, source)

    def release(self, version: str) -> None:
        self._models.release(version)

    async def aclose(self) -> None:
        self._give_up_leftovers(_nobody)
        await self._removals.aclose()
        if self._own:
            left = " ".join(sorted(map(self._name, self._own)))
            log.warning(LogLine("containers remain in the engine", containers=left))
        if self._engine is not None:
            await self._engine.aclose()

    # --- Leftovers of a killed gateway -----------------------------------------------------------

    async def models_in_use(self) -> set[Path]:
        """Return the model directories of containers that a killed gateway has left running.

        Raises:
            LaunchError: no engine can be asked.
        """
        await self._looked_again()
        return self._leftovers.models

    async def remove_leftovers(self, but: Callable[[str, str], bool] | None = None) -> None:
        """Remove this gateway's containers that nothing manages, as after ``kill -9``.

        Args:
            but: says whether coming orders of an endpoint and a variant may take containers over.
                Without it, nothing is taken over any more.

        Raises:
            LaunchError: no engine can be asked; leftovers that are found later are removed then.
        """
        self._takes_over = self._takes_over and but is not None
        self._give_up_leftovers(but or _nobody)
        await self._looked_again()
        self._give_up_leftovers(but or _nobody)
        if self._going:
            await asyncio.wait(self._going)

    @property
    def has_unclaimed(self) -> bool:
        """Whether there are known containers of kept instances that no order has taken."""
        return self._leftovers.has_unclaimed

    async def unclaimed(
        self, is_awaited: Callable[[str], bool]
    ) -> Mapping[str, tuple[str, EngineContainer]]:
        """Adopt containers of kept instances that no order has taken, for the caller to end.

        Args:
            is_awaited: whether an order for a container may still come.

        Returns:
            The name of the endpoint, and the container, by container id.

        Raises:
            LaunchError: no engine can be asked.
        """
        await self._looked_again()
        found = {}
        for each in self._leftovers.unclaimed(is_awaited):
            try:
                running = await self._adopted(await self._connected(), each)
            except (EngineAway, EngineRefusal) as error:
                about = {"container": each.id, "reason": str(error)}
                log.warning(LogLine("a leftover container may still run", **about))
            else:
                found[each.instance] = (each.endpoint, running)
        return found

    async def _looked_again(self) -> None:
        try:
            async with self._looking:
                await self._look(await self._connected())
        except (EngineAway, EngineRefusal) as error:
            raise LaunchError(str(error), passing=True) from error

    async def _look(self, engine: EngineClient) -> None:
        """Find containers that nothing manages, and remove those that no order can take."""
        listed = await engine.containers_of(self._gateway)
        found = [(Leftover.of(each), each.running) for each in listed]
        if any(leftover.gpus for leftover, _ in found):
            await self._gpus.find()
        found = [each for each in found if each[0].instance not in self._own]
        of_kept = [each for each, runs in found if runs and self._is_kept_one(each)]
        for each in of_kept:
            self._gpus.reserve(each.instance, each.gpus)
        found = [each for each in found if each[0] not in of_kept]
        fit = [each for each, runs in found if runs and each.made and self._may_stay(each)]
        self._leftovers.become(fit, of_kept)
        self._looked = True
        for each, _ in found:
            if each not in fit:
                self._discard(engine, each)

    def _is_kept_one(self, leftover: Leftover) -> bool:
        return self._is_kept(instance_of(leftover.instance))

    async def _adopted(self, engine: EngineClient, leftover: Leftover) -> EngineContainer:
        """Adopt the container of a kept instance; its pings are the instance's affair."""
        self._own.add(leftover.instance)
        since = int(time.time())
        try:
            state = await engine.state(leftover.id)
        except (EngineAway, EngineRefusal):  # it is gone, or the next process finds it
            self._own.discard(leftover.instance)
            self._gpus.give_back(leftover.instance)
            raise
        about = {"endpoint": leftover.endpoint, "variant": leftover.variant}
        about |= {"instance": leftover.instance, "container": leftover.id}
        log.info(LogLine("running container adopted", **about))
        remove = self._remover(engine, leftover.instance)
        return EngineContainer(engine, leftover.id, state, remove, self._clock, since)

    def _may_stay(self, leftover: Leftover) -> bool:
        return self._takes_over and self._gpus.keep(leftover.instance, leftover.gpus)

    def _give_up_leftovers(self, is_wanted: Callable[[str, str], bool]) -> None:
        for each in self._leftovers.give_up(is_wanted):
            assert self._engine is not None, "the engine listed the leftovers"
            self._discard(self._engine, each)

    def _discard(self, engine: EngineClient, leftover: Leftover) -> asyncio.Task[None]:
        about = {"instance": leftover.instance, "container": leftover.id}
        log.info(LogLine("leftover container is removed", **about))
        self._own.add(leftover.instance)
        removal = self._remove(engine, leftover.id, leftover.instance)
        self._going.add(removal)
        removal.add_done_callback(self._going.discard)
        return removal

    async def _made(self, order: Order, image: ImageConfiguration, data: HeldData | None) -> str:
        """Return a digest of what an ordered container is made of; empty if it cannot be known."""
        try:
            folder = await identity_of_folder(data, self._clock)
        except OSError:  # a TimeoutError is one; the engine says what is wrong
            return ""
        return made_of(order, image.id, None if data is None else data.path, folder, self._key)

    async def _taken_over(
        self, engine: EngineClient, order: Order, made: str
    ) -> EngineContainer | None:
        """Take over and return a leftover container that matches an order, or return None."""
        leftover, rest = self._leftovers.claim(order, made)
        instance = instance_of(order.instance)
        # Must be immediate: an order for a container beside it may be about to ask for GPUs.
        self._gpus.move(self._leftovers.bound_to(instance), instance)
        for each in rest:
            self._discard(engine, each)
        if leftover is None:
            return None
        self._own.add(leftover.instance)
        since = int(time.time())
        try:
            state = await self._state_in_service(engine, leftover, order)
        except BaseException:
            await self._removals.wait((self._discard(engine, leftover),))
            raise
        if state is None:
            self._discard(engine, leftover)
            return None
        about = {"endpoint": order.endpoint, "variant": order.variant.name}
        about |= {"instance": order.instance, "container": leftover.id}
        log.info(LogLine("running container adopted", **about, was=leftover.instance))
        remove = self._remover(engine, leftover.instance)
        return EngineContainer(engine, leftover.id, state, remove, self._clock, since)

    async def _state_in_service(
        self, engine: EngineClient, leftover: Leftover, order: Order
    ) -> EngineState | None:
        """Return the state of a container that answers its pings (clause 1.1-2), else None."""
        times = order.variant.times
        with suppress(EngineRefusal, TimeoutError):  # it is gone, or does not answer
            state = await engine.state(leftover.id)
            if state.running and state.port is not None:
                async with time_limit(self._clock, times.ping_timeout * times.pings_missed):
                    route = order.variant.surface(order.endpoint).health
                    await pinged(Address(HOST, state.port), self._clock, route)
                    return state
        return None

    # --- Starting and removing -------------------------------------------------------------------

    async def _connected(self) -> EngineClient:
        engine = self._engine
        if engine is None:
            where = self._find()
            # The import takes 0.3 s; a thread keeps open streams going.
            kind = await asyncio.to_thread(_client)
            engine = self._engine = self._engine or kind(where, self._clock)
        return engine

    async def _start(
        self, engine: EngineClient, order: Order, made: str, data: HeldData | None
    ) -> EngineContainer:
        gpus = await self._gpus_for(order)
        instance, name = order.instance, self._name(order.instance)
        self._own.add(instance)
        model, opened = (None, None) if data is None else (data.path, data.opened)
        request = container_request(order, model, self._gateway, made=made, gpus=gpus)
        # An engine finishes a creation even if the request for it is cancelled.
        creating = asyncio.create_task(engine.create(name, request))
        try:
            await asyncio.shield(creating)
            await check_callers_folder(opened, self._clock)
            await engine.start(name)
            # The engine mounts by path, so the folder is checked again after the mount.
            await check_callers_folder(opened, self._clock)
            state = await engine.state(name)
            _check_published(order, state)
        except BaseException:
            await self._removals.wait((self._remove(engine, name, instance, creating),))
            raise
        remove = self._remover(engine, instance)
        return EngineContainer(engine, name, state, remove, self._clock)

    async def _gpus_for(self, order: Order) -> Sequence[str]:
        """Return an instance's own GPUs; none if only the engine knows the machine's GPUs."""
        if not order.variant.gpus:
            return ()
        await self._gpus.find()
        return () if self._gpus.sees_none else self._gpus.take(order.instance, order.variant.gpus)

    def _name(self, instance: str) -> str:
        return container_name(self._gateway, instance)

    def _remover(self, engine: EngineClient, instance: str) -> Callable[[str], object]:
        return lambda name: self._remove(engine, name, instance)

    def _remove(
        self,
        engine: EngineClient,
        name: str,
        instance: str,
        creating: asyncio.Task[None] | None = None,
    ) -> asyncio.Task[None]:
        """Begin to remove an instance's container; an engine that is away is asked again."""

        def over() -> None:
            self._own.discard(instance)
            self._gpus.give_back(instance)

        return self._removals.begin(engine, name, over, creating)


def _nobody(*_: str) -> bool:
    """Refuse the takeover for all orders."""
    return False


def _check_published(order: Order, state: EngineState) -> None:
    if state.running and state.port is None:
        raise LaunchError(
            f"no container of {order.endpoint} can be reached: the engine published no port for it",
            passing=False,
        )


def _client() -> type[EngineClient]:
    """Import the client late: only users of an engine need it."""
    from partway.gateway.fleet.launchers.engine_client import EngineClient

    return EngineClient


async def _pulled(engine: EngineClient, source: Image) -> ImageConfiguration:
    name = source.name
    if source.pull == "never":
        raise LaunchError(
            f'the engine at {engine.where} has no image {name}, and pull = "never" forbids pulling '
            f'it: build or load it (docker build, docker load), set pull = "missing", '
            f"{_OTHERWISE}",
            passing=False,
        )
    log.info(LogLine("pulling an image", image=name))
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
            f"the engine at {engine.where} reported that it pulled image {name}, but does not have "
            "it",
            passing=True,
        )
    return found


@contextmanager
def _said_of(source: Image) -> Iterator[None]:
    """Turn an engine's errors into errors about an image."""
    try:
        yield
    except EngineNotAsked as error:
        why = f"image {source.name} is not started yet: {error}"
        raise LaunchError(why, passing=True, waits=True) from error
    except EngineAway as away:
        no_engine = isinstance(away, NoEngine)
        raise LaunchError(
            f"image {source.name} cannot be started: {away}; start the engine, {_OTHERWISE}",
            passing=True,
            failure=StartFailure.NO_ENGINE if no_engine else StartFailure.NOT_LAUNCHED,
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
