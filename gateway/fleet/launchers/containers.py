"""Instances of several containers, started together and ended together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from partway.gateway.fleet.container_ids import hostname_of
from partway.gateway.fleet.endpoint import Variant
from partway.gateway.fleet.launchers.launcher import (
    Launcher,
    LaunchError,
    Loss,
    Order,
    RunningContainer,
)
from partway.gateway.fleet.launchers.local_models import LocalModels
from partway.gateway.network.dialling import Address


@dataclass(frozen=True, slots=True)
class FirstEnd:
    """The end of an instance of several containers.

    Attributes:
        hostname: the host name of the container that ended first.
    """

    hostname: str
    how: object

    def __str__(self) -> str:
        """Complete the sentence "the container …"."""
        return f"{self.hostname} {self.how}"


class RunningContainers:
    """The containers of one instance, treated as one.

    Args:
        each: by host name, in the order in which they are called.
    """

    def __init__(self, each: Mapping[str, RunningContainer]) -> None:
        self.each: Final = dict(each)
        self._on_loss: Callable[[], object] = lambda: None
        self._has_ended = False  # the first of them
        self._stopping = False
        self._life = asyncio.create_task(self._live(), name=f"containers {', '.join(each)}")

    @property
    def address(self) -> Address:
        return next(iter(self.each.values())).address

    @property
    def loss(self) -> Loss | None:
        """Whether one of them is gone, though others have yet to end, or out of reach."""
        if self._has_ended:
            return Loss.GONE
        is_out_of_reach = any(each.loss is Loss.UNREACHABLE for each in self.each.values())
        return Loss.UNREACHABLE if is_out_of_reach else None

    def watch(self, on_loss: Callable[[], object]) -> None:
        self._on_loss = on_loss
        for each in self.each.values():
            each.watch(on_loss)

    def pass_output(self, receiver: Callable[[bytes], None]) -> None:
        """Pass on the output of all of them, as it comes."""
        for each in self.each.values():
            each.pass_output(receiver)

    @property
    def addresses(self) -> Mapping[str, Address]:
        return {hostname: each.address for hostname, each in self.each.items()}

    async def verify(self) -> None:
        """Verify that each container is the one that listens at its address.

        Raises:
            LaunchError: another program does; the message names the container.
        """
        for hostname, each in self.each.items():
            with _named(hostname):
                await each.verify()

    async def listening_trouble(self) -> str:
        """Describe the first container that does not listen at its address."""
        for hostname, each in self.each.items():
            if trouble := await each.listening_trouble():
                return f"{hostname}: {trouble}"
        return ""

    async def wait(self) -> FirstEnd:
        """Wait until one has ended, and then until all others have been killed."""
        return await asyncio.shield(self._life)

    async def stop(self, grace: float) -> bool:
        """End all of them together; return when all have ended."""
        if self._life.done():
            return True
        self._stopping = True  # the first end must not kill the others
        enough = await asyncio.gather(*(each.stop(grace) for each in self.each.values()))
        await self.wait()
        return all(enough)

    def kill(self) -> None:
        """Begin to end all of them at once."""
        for each in self.each.values():
            each.kill()

    async def _live(self) -> FirstEnd:
        ends = {
            asyncio.create_task(each.wait(), name=f"end of {hostname}"): hostname
            for hostname, each in self.each.items()
        }
        over, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        first = next(task for task in ends if task in over)
        self._has_ended = True
        self._on_loss()
        if not self._stopping:
            self.kill()
        await asyncio.wait(ends)
        return FirstEnd(ends[first], first.result())


class ContainersLauncher:
    """Starts all containers of an instance, each with the launcher of its own source.

    Args:
        models: the model data of all of them, which are there before the first starts.
    """

    address_timeout = None

    def __init__(self, launcher: Callable[[Variant], Launcher], models: LocalModels) -> None:
        self._launcher = launcher
        self._models = models

    async def launch(self, order: Order) -> RunningContainers:
        """Start all of them at once; see :class:`~.launcher.Launcher`."""
        for one in order.containers:
            with _named(hostname_of(one.instance)):
                await self._models.of(one)
        launches = [asyncio.create_task(self._launched(each)) for each in order.containers]
        try:
            await asyncio.wait(launches, return_when=asyncio.FIRST_EXCEPTION)
            running = [each.result() for each in launches if each.done()]
        except BaseException:
            await _undo(launches)
            raise
        hostnames = (hostname_of(each.instance) for each in order.containers)
        each = dict(zip(hostnames, running, strict=True))
        return RunningContainers(each)

    def release(self, version: str) -> None:
        self._models.release(version)

    async def aclose(self) -> None:
        """Do nothing: the launchers belong to others."""

    async def _launched(self, order: Order) -> RunningContainer:
        with _named(hostname_of(order.instance)):
            return await self._launcher(order.variant).launch(order)


async def _undo(launches: Iterable[asyncio.Task[RunningContainer]]) -> None:
    """Cancel the starts under way, and end the containers that were started."""
    begun = list(launches)
    for each in begun:
        each.cancel()
    ended: list[Any] = await asyncio.gather(*begun, return_exceptions=True)
    started: list[RunningContainer] = [
        each for each in ended if not isinstance(each, BaseException)
    ]
    for container in started:
        container.kill()
    for container in started:
        await container.wait()


@contextmanager
def _named(hostname: str) -> Iterator[None]:
    """Begin the message of a LaunchError with a container's host name."""
    try:
        yield
    except LaunchError as error:
        why = f"{hostname}: {error}"
        raise LaunchError(why, passing=error.passing, waits=error.waits) from error
