"""Instances of several containers, started together and ended together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from partway.gateway.fleet.container_ids import hostname_of
from partway.gateway.fleet.endpoint import Source
from partway.gateway.fleet.launchers.launcher import (
    Launcher,
    LaunchError,
    Order,
    RunningContainer,
)
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
        on_first_end: called as soon as one has ended, before the others do.
    """

    def __init__(
        self, each: Mapping[str, RunningContainer], on_first_end: Callable[[], object]
    ) -> None:
        self._on_first_end = on_first_end
        self._each = dict(each)
        self._stopping = False
        self._life = asyncio.create_task(self._live(), name=f"containers {', '.join(each)}")

    @property
    def address(self) -> Address:
        return next(iter(self._each.values())).address

    @property
    def addresses(self) -> Mapping[str, Address]:
        return {hostname: each.address for hostname, each in self._each.items()}

    async def verify(self) -> None:
        """Verify that each container is the one that listens at its address.

        Raises:
            LaunchError: another program does; the message names the container.
        """
        for hostname, each in self._each.items():
            try:
                await each.verify()
            except LaunchError as error:
                raise _named(hostname, error) from error

    async def listening_trouble(self) -> str:
        """Describe the first container that does not listen at its address."""
        for hostname, each in self._each.items():
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
        enough = await asyncio.gather(*(each.stop(grace) for each in self._each.values()))
        await self.wait()
        return all(enough)

    def kill(self) -> None:
        """Begin to end all of them at once."""
        for each in self._each.values():
            each.kill()

    async def _live(self) -> FirstEnd:
        ends = {
            asyncio.create_task(each.wait(), name=f"end of {hostname}"): hostname
            for hostname, each in self._each.items()
        }
        over, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        first = next(task for task in ends if task in over)
        self._on_first_end()
        if not self._stopping:
            self.kill()
        await asyncio.wait(ends)
        return FirstEnd(ends[first], first.result())


class ContainersLauncher:
    """Starts all containers of an instance, each with the launcher of its own source."""

    def __init__(self, launcher: Callable[[Source], Launcher]) -> None:
        self._launcher = launcher

    async def launch(self, order: Order) -> RunningContainers:
        """Start all of them at once; see :class:`~.launcher.Launcher`."""
        launches = [asyncio.create_task(self._launched(each)) for each in order.containers]
        try:
            await asyncio.wait(launches, return_when=asyncio.FIRST_EXCEPTION)
            running = [each.result() for each in launches if each.done()]
        except BaseException:
            await _undo(launches)
            raise
        hostnames = (hostname_of(each.instance) for each in order.containers)
        each = dict(zip(hostnames, running, strict=True))
        return RunningContainers(each, order.on_first_end)

    async def aclose(self) -> None:
        """Do nothing: the launchers belong to others."""

    async def _launched(self, order: Order) -> RunningContainer:
        try:
            return await self._launcher(order.variant.source).launch(order)
        except LaunchError as error:
            raise _named(hostname_of(order.instance), error) from error


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


def _named(hostname: str, error: LaunchError) -> LaunchError:
    return LaunchError(f"{hostname}: {error}", passing=error.passing, waits=error.waits)
